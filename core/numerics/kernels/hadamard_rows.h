// The rotation of hadamard.h along rows, in blocks of eight or more: a file of its own because here a product may be
// fused with the sum that follows. Products are by factors, whose sums are never of themselves, or by signs, exact.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>

#include "core/numerics/block_quantize.h"
#include "core/numerics/kernels/lanes.h"

namespace moescope {

// body.operator()<n>(), n being a power of two from kLeast to 128.
template <std::size_t kLeast, class Body>
MOESCOPE_INLINE void with_size(std::size_t n, const Body& body) {
  if (n == kLeast) return body.template operator()<kLeast>();
  if constexpr (kLeast < 128)
    with_size<2 * kLeast>(n, body);
  else
    assert(false);
}

// Of blocks of sixteen, no value comes out above a quarter of what the block's magnitudes add up to: blocks in which
// that is not above the largest value so far, nearly all of those of normal values, need not be rotated to find it. Of
// larger blocks it nearly always is above.
inline constexpr std::size_t kSumBlock = 16;
inline constexpr float kSumBound = 0.25f * 1.0001f;  // rounding included

// Columns [first, first + count), a multiple of n, a power of two from 8 to 128; `factor` of each of them.
void rotate_row_blocks(const MatrixView& in, std::size_t first, std::size_t count, std::size_t n, const float* factor,
                       float* out, std::size_t out_stride);
// Bits of the largest magnitude that it would give, or of `top` if that is larger.
std::int32_t rotated_row_amax(const MatrixView& in, std::size_t first, std::size_t count, std::size_t n,
                              const float* factor, std::int32_t top);

}  // namespace moescope
