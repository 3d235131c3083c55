// Randomized Hadamard rotation of a GEMM operand's contracting dimension.
//
// Blocks of n (a power of two) are multiplied by H_n D / sqrt(n): D random signs, H_n the Hadamard matrix in Sylvester
// order. The matrix is orthogonal, so rotating both operands with the same seed leaves their product as it was, up to
// rounding, while one outlier is spread over n values. NVIDIA's NVFP4 recipe does so with n = 16 for the weight
// gradient (arXiv:2509.25149, section 4). A remainder that fills no block is rotated in the powers of two it consists
// of. Fast Walsh-Hadamard transform: n log2 n additions.
#pragma once

#include <cstdint>

#include "core/numerics/block_quantize.h"

namespace moescope {

struct Rotation {
  int block;
  RotationForm form = RotationForm::drawn;  // fixed signs repeat every 16 values: TransformerEngine's for its wgrad
  std::uint64_t seed = 0;                   // of drawn signs
};

// Writes the rotated values to `out`. `first`: index of the matrix's first element along the contracting dimension, a
// multiple of the block; decides the signs that are drawn.
void hadamard_rotate(ConstMatrix<float> in, BlockAxis axis, const Rotation& rotation, Index first, Matrix<float> out);
// The largest magnitude of the rotated values; NaN or infinity if there is one. They are written to `out`, too, if it
// has memory.
float rotated_amax(ConstMatrix<float> in, BlockAxis axis, const Rotation& rotation, Index first,
                   Matrix<float> out = {});

}  // namespace moescope
