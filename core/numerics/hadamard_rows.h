// The rotation of hadamard.h along rows, in blocks of eight or more: a file of its own because here a product may be
// fused with the sum that follows. Products are by factors, whose sums are never of themselves, or by signs, exact.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>

#include "core/numerics/block_quantize.h"
#include "core/numerics/lanes.h"

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

// Columns [first, first + count), a multiple of n, a power of two from 8 to 128; `factor` of each of them.
void rotate_row_blocks(const MatrixView& in, std::size_t first, std::size_t count, std::size_t n, const float* factor,
                       float* out, std::size_t out_stride);
// Bits of the largest magnitude that it would give, or of `top` if that is larger.
std::int32_t rotated_row_amax(const MatrixView& in, std::size_t first, std::size_t count, std::size_t n,
                              const float* factor, std::int32_t top);

}  // namespace moescope
