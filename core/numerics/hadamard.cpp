#include "core/numerics/hadamard.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <vector>

#include "core/numerics/counter_bits.h"
#include "core/numerics/hadamard_rows.h"
#include "core/numerics/lanes.h"
#include "core/numerics/simd.h"

namespace moescope {
namespace {

constexpr std::size_t kMaxBlock = 128;
constexpr std::size_t kWidth = kLanes<float>;

MOESCOPE_INLINE float sign_of(std::uint64_t seed, std::size_t index) {
  return mix_bits(mix_bits(seed) ^ index) & 1 ? -1.0f : 1.0f;
}

float norm_of(std::size_t n) {
  return static_cast<float>(1 / std::sqrt(static_cast<double>(n)));
}

// Signs of values [first, first + count) of blocks of n, times 1 / sqrt(n), from a table of this thread: tiles of one
// tensor come one after the other.
const float* factors_of(std::uint64_t seed, std::size_t n, std::size_t first, std::size_t count) {
  thread_local std::vector<float> factors;
  thread_local std::uint64_t of_seed = 0;
  thread_local std::size_t of_n = 0;
  if (seed != of_seed || n != of_n) factors.clear(), of_seed = seed, of_n = n;
  for (std::size_t i = factors.size(); i < first + count; ++i) factors.push_back(norm_of(n) * sign_of(seed, i));
  return factors.data() + first;
}

// Down columns: neighbouring columns side by side
// -----------------------------------------------------------------------

// The n values of sixteen columns, the first `lanes` of them given; those `ahead` are fetched.
template <std::size_t kBlock>
MOESCOPE_INLINE void rotate_sixteen_columns(const float* in, std::size_t stride, std::size_t lanes, std::size_t ahead,
                                            const float* factor, float* out, std::size_t out_stride) {
  Lanes<float> v[kBlock];
  const int count = static_cast<int>(lanes);
#pragma GCC unroll 16
  for (std::size_t k = 0; k < kBlock; ++k) {
    __builtin_prefetch(in + k * stride + ahead);
    v[k] = (lanes == kWidth ? load(in + k * stride) : load_first(in + k * stride, count)) * factor[k];
  }
#pragma GCC unroll 8
  for (std::size_t half = 1; half < kBlock; half *= 2)
#pragma GCC unroll 16
    for (std::size_t i = 0; i < kBlock / 2; ++i) {
      const std::size_t k = i / half * 2 * half + i % half;
      const Lanes<float> a = v[k], b = v[k + half];
      v[k] = a + b;
      v[k + half] = a - b;
    }
#pragma GCC unroll 16
  for (std::size_t k = 0; k < kBlock; ++k) {
    if (lanes == kWidth)
      store(out + k * out_stride, v[k]);
    else
      store_first(out + k * out_stride, v[k], count);
  }
}

template <std::size_t kBlock>
MOESCOPE_INLINE void rotate_columns(const float* in, std::size_t stride, std::size_t cols, const float* factor,
                                    float* out, std::size_t out_stride, std::size_t ahead) {
  for (std::size_t c = 0; c < cols; c += kWidth)
    rotate_sixteen_columns<kBlock>(in + c, stride, std::min(kWidth, cols - c), ahead, factor, out + c, out_stride);
}

MOESCOPE_SIMD void rotate_columns(const float* in, std::size_t stride, std::size_t n, std::size_t cols,
                                  const float* factor, float* out, std::size_t out_stride, std::size_t ahead) {
  switch (n) {
#define MOESCOPE_BLOCK(size) \
  case size:                 \
    return rotate_columns<size>(in, stride, cols, factor, out, out_stride, ahead);
    MOESCOPE_BLOCK(1)
    MOESCOPE_BLOCK(2)
    MOESCOPE_BLOCK(4)
    MOESCOPE_BLOCK(8)
    MOESCOPE_BLOCK(16)
    MOESCOPE_BLOCK(32)
    MOESCOPE_BLOCK(64)
    MOESCOPE_BLOCK(128)
#undef MOESCOPE_BLOCK
  }
}

// Along rows
// -----------------------------------------------------------------------------------------------------------

// A block of less than eight.
void rotate_few(const float* in, std::size_t n, const float* factor, float* out) {
  for (std::size_t k = 0; k < n; ++k) out[k] = in[k] * factor[k];
  for (std::size_t half = 1; half < n; half *= 2)
    for (std::size_t i = 0; i < n; i += 2 * half)
      for (std::size_t k = i; k < i + half; ++k) {
        const float a = out[k], b = out[k + half];
        out[k] = a + b;
        out[k + half] = a - b;
      }
}

// Columns [first, first + count), a multiple of n.
void rotate_rows(const MatrixView& in, std::size_t first, std::size_t count, std::size_t n, const float* factor,
                 float* out, std::size_t out_stride, std::size_t ahead) {
  if (n >= 8) return rotate_row_blocks(in, first, count, n, factor, out, out_stride, ahead);
  assert(n == count);
  for (std::size_t r = 0; r < in.rows; ++r)
    rotate_few(in.data + r * in.stride + first, n, factor, out + r * out_stride + first);
}

}  // namespace

void hadamard_rotate(MatrixView in, BlockAxis axis, int block, std::uint64_t seed, std::size_t first, float* out,
                     std::size_t out_stride, std::size_t ahead) {
  assert(block > 0 && static_cast<std::size_t>(block) <= kMaxBlock &&
         std::has_single_bit(static_cast<unsigned>(block)));
  assert(first % static_cast<std::size_t>(block) == 0);
  const std::size_t length = axis == BlockAxis::row ? in.cols : in.rows, whole = static_cast<std::size_t>(block);
  for (std::size_t k = 0, count = 0; k < length; k += count) {
    const std::size_t n = std::min(whole, std::bit_floor(length - k));
    count = n == whole ? (length - k) / n * n : n;
    alignas(64) float few[kMaxBlock];
    if (n != whole)
      for (std::size_t i = 0; i < n; ++i) few[i] = norm_of(n) * sign_of(seed, first + k + i);
    const float* factor = n == whole ? factors_of(seed, n, first + k, count) : few;
    if (axis == BlockAxis::row) {
      rotate_rows(in, k, count, n, factor, out, out_stride, ahead);
      continue;
    }
    for (std::size_t i = k; i < k + count; i += n)
      rotate_columns(in.data + i * in.stride, in.stride, n, in.cols, factor + i - k, out + i * out_stride, out_stride,
                     ahead);
  }
}

}  // namespace moescope
