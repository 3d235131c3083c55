// The rotation of hadamard.h along rows, in blocks of eight or more: a file of its own because here a product may be
// fused with the sum that follows. Products are by factors, whose sums are never of themselves, or by signs, exact.
#pragma once

#include <cstddef>

#include "core/numerics/block_quantize.h"

namespace moescope {

// Columns [first, first + count), a multiple of n, a power of two from 8 to 128; `factor` of each of them.
void rotate_row_blocks(const MatrixView& in, std::size_t first, std::size_t count, std::size_t n, const float* factor,
                       float* out, std::size_t out_stride, std::size_t ahead);

}  // namespace moescope
