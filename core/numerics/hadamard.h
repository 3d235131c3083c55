// Randomized Hadamard rotation of a GEMM operand's contracting dimension.
//
// Blocks of n (a power of two) are multiplied by H_n D / sqrt(n): D random signs, H_n the Hadamard matrix in Sylvester
// order. The matrix is orthogonal, so rotating both operands with the same seed leaves their product as it was, up to
// rounding, while one outlier is spread over n values. NVIDIA's NVFP4 recipe does so with n = 16 for the weight
// gradient (arXiv:2509.25149, section 4). A remainder that fills no block is rotated in the powers of two it consists
// of. Fast Walsh-Hadamard transform: n log2 n additions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/numerics/block_quantize.h"

namespace moescope {

struct Rotation {
  int block;
  RotationForm form = RotationForm::drawn;  // fixed signs repeat every 16 values: TransformerEngine's for its wgrad
  std::uint64_t seed = 0;                   // of drawn signs
};

// `first`: index of the view's first element along the contracting dimension, a multiple of the block; decides the
// signs that are drawn. `amax`, if given: the largest magnitude of what is written; NaN or infinity if there is one.
void hadamard_rotate(MatrixView in, BlockAxis axis, const Rotation& rotation, std::size_t first, float* out,
                     std::size_t out_stride, float* amax = nullptr);

// That magnitude alone.
float rotated_amax(MatrixView in, BlockAxis axis, const Rotation& rotation, std::size_t first);

}  // namespace moescope
