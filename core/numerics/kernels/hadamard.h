// Randomized Hadamard rotation of a GEMM operand's contracting dimension.
//
// Blocks of n (a power of two) are multiplied by H_n D / sqrt(n). D is a diagonal matrix of random signs, H_n the
// Hadamard matrix in Sylvester order. The matrix is orthogonal, so rotating both operands with the same seed leaves
// their product unchanged up to rounding, while an outlier is spread over n values. NVIDIA's NVFP4 recipe does so with
// n = 16 for the weight gradient (arXiv:2509.25149, section 4). A remainder that fills no block is split into blocks of
// the powers of two that add up to it. Fast Walsh-Hadamard transform: n log2 n additions.
#pragma once

#include <cstdint>

#include "core/numerics/block_quantize.h"

namespace moescope {

struct Rotation {
  int block;
  RotationForm form = RotationForm::drawn;  // fixed: signs of TransformerEngine's wgrad, every 16 values
  std::uint64_t seed = 0;                   // seed of drawn signs
};

// Writes the rotated values to `out`. `first` is the index of the matrix's first element along the contracting
// dimension, a multiple of the block; drawn signs depend on it.
void hadamard_rotate(ConstMatrix<float> in, BlockAxis axis, const Rotation& rotation, Index first, Matrix<float> out);
// Returns the largest magnitude of the rotated values; NaN or infinity if there is one. Also writes the rotated values
// to `out` if it has memory.
float rotated_amax(ConstMatrix<float> in, BlockAxis axis, const Rotation& rotation, Index first,
                   Matrix<float> out = {});

}  // namespace moescope
