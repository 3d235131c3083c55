#include "core/numerics/hadamard.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>

#include "core/numerics/kernels/counter_bits.h"
#include "core/numerics/kernels/element_lanes.h"
#include "core/numerics/kernels/hadamard_rows.h"
#include "core/numerics/kernels/line_vector.h"
#include "core/numerics/kernels/simd.h"
#include "core/numerics/kernels/streaming.h"

namespace moescope {
namespace {

constexpr std::size_t kMaxBlock = 128;
constexpr std::size_t kWidth = kLanes<float>;
constexpr std::size_t kAhead = 256;  // columns: so far ahead of the values in use others are fetched

MOESCOPE_INLINE float sign_of(std::uint64_t seed, std::size_t index) {
  return mix_bits(mix_bits(seed) ^ index) & 1 ? -1.0f : 1.0f;
}

float norm_of(std::size_t n) {
  return static_cast<float>(1 / std::sqrt(static_cast<double>(n)));
}

// Signs of values [first, first + count) of blocks of n, times 1 / sqrt(n), from a table of this thread: tiles of one
// tensor come one after the other.
const float* factors_of(std::uint64_t seed, std::size_t n, std::size_t first, std::size_t count) {
  thread_local LineVector<float> factors;
  thread_local std::uint64_t of_seed = 0;
  thread_local std::size_t of_n = 0;
  if (seed != of_seed || n != of_n) factors.clear(), of_seed = seed, of_n = n;
  for (std::size_t i = factors.size(); i < first + count; ++i) factors.push_back(norm_of(n) * sign_of(seed, i));
  return factors.data() + first;
}

// Down columns: neighbouring columns side by side
// -----------------------------------------------------------------------

// So many values of sixteen columns, and how they meet from `half` on.
template <std::size_t kCount>
struct SixteenColumns {
  Lanes<float> v[kCount];

  MOESCOPE_INLINE void join() {
#pragma GCC unroll 8
    for (std::size_t half = 1; half < kCount; half *= 2)
#pragma GCC unroll 16
      for (std::size_t i = 0; i < kCount / 2; ++i) {
        const std::size_t k = i / half * 2 * half + i % half;
        const Lanes<float> a = v[k], b = v[k + half];
        v[k] = a + b;
        v[k + half] = a - b;
      }
  }
};

// kCount values of sixteen columns, rotated; the first `lanes` columns are given if they are not whole.
template <std::size_t kCount, bool kWhole>
MOESCOPE_INLINE SixteenColumns<kCount> rotated_columns(const float* in, std::size_t stride, std::size_t lanes,
                                                       const float* factor) {
  SixteenColumns<kCount> columns;
#pragma GCC unroll 16
  for (std::size_t k = 0; k < kCount; ++k) {
    __builtin_prefetch(in + k * stride + kAhead, 0, kSecondCache);  // rows far apart share few places of the first
    const float* x = in + k * stride;
    columns.v[k] = (kWhole ? load(x) : load_first(x, static_cast<int>(lanes))) * factor[k];
  }
  columns.join();
  return columns;
}

constexpr std::size_t kAtOnce = 16;  // values of a column that fit in the registers

// body<kWhole>(row, rows from one to the next, values) for a block of n of sixteen columns. One that does not fit in
// the registers is rotated in two turns: neighbours first, then what is kAtOnce rows apart.
template <std::size_t kBlock, bool kWhole>
MOESCOPE_INLINE void rotate_sixteen(const float* in, std::size_t stride, std::size_t lanes, const float* factor,
                                    const auto& body) {
  if constexpr (kBlock <= kAtOnce) {
    body.template operator()<kWhole>(0, 1, rotated_columns<kBlock, kWhole>(in, stride, lanes, factor));
  } else {
    alignas(64) float turned[kBlock * kWidth];
    for (std::size_t first = 0; first < kBlock; first += kAtOnce) {
      const auto columns = rotated_columns<kAtOnce, kWhole>(in + first * stride, stride, lanes, factor + first);
#pragma GCC unroll 16
      for (std::size_t k = 0; k < kAtOnce; ++k) store(turned + (first + k) * kWidth, columns.v[k]);
    }
    for (std::size_t row = 0; row < kAtOnce; ++row) {
      SixteenColumns<kBlock / kAtOnce> columns;
#pragma GCC unroll 16
      for (std::size_t k = 0; k < kBlock / kAtOnce; ++k) columns.v[k] = load(turned + (row + k * kAtOnce) * kWidth);
      columns.join();
      body.template operator()<kWhole>(row, kAtOnce, columns);
    }
  }
}

template <std::size_t kBlock>
MOESCOPE_INLINE void rotate_columns(const float* in, std::size_t stride, std::size_t cols, const float* factor,
                                    float* out, std::size_t out_stride) {
  std::size_t c = 0;
  const auto write = [&]<bool kWhole>(std::size_t row, std::size_t step, const auto& columns)
      __attribute__((always_inline)) {
    float* to = out + row * out_stride + c;
#pragma GCC unroll 16
    for (const Lanes<float>& v : columns.v) {
      if constexpr (kWhole)
        store(to, v);
      else
        store_first(to, v, static_cast<int>(cols - c));
      to += step * out_stride;
    }
  };
  for (; c + kWidth <= cols; c += kWidth) rotate_sixteen<kBlock, true>(in + c, stride, kWidth, factor, write);
  if (c < cols) rotate_sixteen<kBlock, false>(in + c, stride, cols - c, factor, write);
}

// What the magnitudes of kSumBlock values of sixteen columns add up to.
MOESCOPE_INLINE Floats column_sums(const float* in, std::size_t stride) {
  Floats sums{};
#pragma GCC unroll 16
  for (std::size_t k = 0; k < kSumBlock; ++k) {
    __builtin_prefetch(in + k * stride + kAhead, 0, kSecondCache);
    sums += (Floats)magnitude_bits(load(in + k * stride));
  }
  return sums;
}

// The largest magnitude, `known` at least. Columns of kSumBlock values that cannot hold a larger one are not rotated.
template <std::size_t kBlock>
MOESCOPE_INLINE std::int32_t columns_amax(const float* in, std::size_t stride, std::size_t cols, const float* factor,
                                          std::int32_t known) {
  Ints top = Ints{} + known;
  const auto raise = [&]<bool kWhole>(std::size_t, std::size_t, const auto& columns) __attribute__((always_inline)) {
#pragma GCC unroll 16
    for (const Lanes<float>& v : columns.v) top = larger(top, magnitude_bits(v));
  };
  std::size_t c = 0;
  if constexpr (kBlock == kSumBlock) {
    constexpr std::size_t kStretch = 4 * kWidth;
    for (; c + kStretch <= cols; c += kStretch) {
      Ints bounds{};
      for (std::size_t i = c; i < c + kStretch; i += kWidth)
        bounds = larger(bounds, (Ints)(column_sums(in + i, stride) * kSumBound));
      if (max_of<std::int32_t>(bounds) <= known) continue;
      for (std::size_t i = c; i < c + kStretch; i += kWidth)
        rotate_sixteen<kBlock, true>(in + i, stride, kWidth, factor, raise);
      known = max_of<std::int32_t>(top);
    }
  }
  for (; c + kWidth <= cols; c += kWidth) rotate_sixteen<kBlock, true>(in + c, stride, kWidth, factor, raise);
  if (c < cols) rotate_sixteen<kBlock, false>(in + c, stride, cols - c, factor, raise);
  return max_of<std::int32_t>(top);
}

// Raises each column's largest magnitude.
template <std::size_t kBlock>
MOESCOPE_INLINE void raise_columns(const float* in, std::size_t stride, std::size_t cols, const float* factor,
                                   std::int32_t* amax_bits) {
  std::size_t c = 0;
  const auto raise = [&]<bool kWhole>(std::size_t, std::size_t, const auto& columns) __attribute__((always_inline)) {
    const int lanes = static_cast<int>(kWhole ? kWidth : cols - c);
    Ints top = load_first(amax_bits + c, lanes);
#pragma GCC unroll 16
    for (const Lanes<float>& v : columns.v) top = larger(top, magnitude_bits(v));
    store_first(amax_bits + c, top, lanes);
  };
  for (; c + kWidth <= cols; c += kWidth) rotate_sixteen<kBlock, true>(in + c, stride, kWidth, factor, raise);
  if (c < cols) rotate_sixteen<kBlock, false>(in + c, stride, cols - c, factor, raise);
}

MOESCOPE_SIMD void raise_columns(const float* in, std::size_t stride, std::size_t n, std::size_t cols,
                                 const float* factor, std::int32_t* amax_bits) {
  with_size<1>(
      n, [&]<std::size_t kBlock>()
             __attribute__((always_inline)) { raise_columns<kBlock>(in, stride, cols, factor, amax_bits); });
}

MOESCOPE_SIMD void rotate_columns(const float* in, std::size_t stride, std::size_t n, std::size_t cols,
                                  const float* factor, float* out, std::size_t out_stride) {
  with_size<1>(
      n, [&]<std::size_t kBlock>()
             __attribute__((always_inline)) { rotate_columns<kBlock>(in, stride, cols, factor, out, out_stride); });
}

MOESCOPE_SIMD std::int32_t rotated_column_amax(const float* in, std::size_t stride, std::size_t n, std::size_t cols,
                                               const float* factor, std::int32_t top) {
  with_size<1>(
      n, [&]<std::size_t kBlock>()
             __attribute__((always_inline)) { top = columns_amax<kBlock>(in, stride, cols, factor, top); });
  return top;
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
                 float* out, std::size_t out_stride) {
  if (n >= 8) return rotate_row_blocks(in, first, count, n, factor, out, out_stride);
  assert(n == count);
  for (std::size_t r = 0; r < in.rows; ++r)
    rotate_few(in.data + r * in.stride + first, n, factor, out + r * out_stride + first);
}

std::int32_t rotated_rows_amax(const MatrixView& in, std::size_t first, std::size_t count, std::size_t n,
                               const float* factor, std::int32_t top) {
  if (n >= 8) return rotated_row_amax(in, first, count, n, factor, top);
  for (std::size_t r = 0; r < in.rows; ++r) {
    float few[8];
    rotate_few(in.data + r * in.stride + first, n, factor, few);
    for (std::size_t i = 0; i < n; ++i) top = std::max(top, std::bit_cast<std::int32_t>(few[i]) & kMagnitudeMask);
  }
  return top;
}

// body(first value, count of values, size n of their blocks, factor of each) for the stretches of `length` values.
void for_each_size(std::size_t length, int block, std::uint64_t seed, std::size_t first, const auto& body) {
  assert(block > 0 && static_cast<std::size_t>(block) <= kMaxBlock &&
         std::has_single_bit(static_cast<unsigned>(block)));
  assert(first % static_cast<std::size_t>(block) == 0);
  const std::size_t whole = static_cast<std::size_t>(block);
  for (std::size_t k = 0, count = 0; k < length; k += count) {
    const std::size_t n = std::min(whole, std::bit_floor(length - k));
    count = n == whole ? (length - k) / n * n : n;
    alignas(64) float few[kMaxBlock];
    if (n != whole)
      for (std::size_t i = 0; i < n; ++i) few[i] = norm_of(n) * sign_of(seed, first + k + i);
    body(k, count, n, n == whole ? factors_of(seed, n, first + k, count) : few);
  }
}

}  // namespace

void hadamard_rotate(MatrixView in, BlockAxis axis, int block, std::uint64_t seed, std::size_t first, float* out,
                     std::size_t out_stride) {
  if (axis == BlockAxis::row)
    return for_each_size(in.cols, block, seed, first,
                         [&](std::size_t k, std::size_t count, std::size_t n, const float* factor) {
                           rotate_rows(in, k, count, n, factor, out, out_stride);
                         });
  for_each_size(in.rows, block, seed, first, [&](std::size_t k, std::size_t count, std::size_t n, const float* factor) {
    for (std::size_t i = 0; i < count; i += n)
      rotate_columns(in.data + (k + i) * in.stride, in.stride, n, in.cols, factor + i, out + (k + i) * out_stride,
                     out_stride);
  });
}

void raise_rotated_column_amax(MatrixView in, int block, std::uint64_t seed, std::size_t first,
                               std::int32_t* amax_bits) {
  for_each_size(in.rows, block, seed, first, [&](std::size_t k, std::size_t count, std::size_t n, const float* factor) {
    for (std::size_t i = 0; i < count; i += n)
      raise_columns(in.data + (k + i) * in.stride, in.stride, n, in.cols, factor + i, amax_bits);
  });
}

float rotated_amax(MatrixView in, BlockAxis axis, int block, std::uint64_t seed, std::size_t first) {
  std::int32_t top = 0;
  const bool rows = axis == BlockAxis::row;
  for_each_size(
      rows ? in.cols : in.rows, block, seed, first,
      [&](std::size_t k, std::size_t count, std::size_t n, const float* factor) {
        if (rows) {
          for_each_stretch_from_end(in.rows, in.cols, [&](std::size_t r, std::size_t stretch) {
            top = rotated_rows_amax({in.data + r * in.stride, stretch, in.cols, in.stride}, k, count, n, factor, top);
          });
          return;
        }
        for (std::size_t i = count; i > 0; i -= n)
          top = rotated_column_amax(in.data + (k + i - n) * in.stride, in.stride, n, in.cols, factor + i - n, top);
      });
  return std::bit_cast<float>(top);
}

}  // namespace moescope
