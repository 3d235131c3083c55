#include "core/numerics/hadamard_rows.h"

#include <algorithm>
#include <cstring>

#include "core/numerics/element_lanes.h"
#include "core/numerics/lane_joins.h"
#include "core/numerics/simd.h"
#include "core/numerics/streaming.h"

namespace moescope {
namespace {

constexpr std::size_t kSixteen = kLanes<float>;
static_assert(kSumBlock == kSixteen);

typedef float Eight __attribute__((vector_size(32)));
typedef std::int32_t EightInts __attribute__((vector_size(32)));

// a + b in the lower of two places that are `half` apart, a - b in the upper. The products by a sign are exact, so that
// adding them in the same operation rounds as adding them afterwards.
template <int kHalf>
MOESCOPE_INLINE Eight butterfly(Eight v) {
  constexpr auto sign = [](int lane) { return lane & kHalf ? -1.0f : 1.0f; };
  const Eight signs = {sign(0), sign(1), sign(2), sign(3), sign(4), sign(5), sign(6), sign(7)};
  const Eight partner = __builtin_shufflevector(v, v, 0 ^ kHalf, 1 ^ kHalf, 2 ^ kHalf, 3 ^ kHalf, 4 ^ kHalf, 5 ^ kHalf,
                                                6 ^ kHalf, 7 ^ kHalf);
  return partner + v * signs;
}

// kBlock neighbours, a multiple of eight.
template <std::size_t kBlock>
struct Block {
  Eight v[kBlock / 8];
};

template <std::size_t kBlock>
MOESCOPE_INLINE Block<kBlock> rotated_block(const float* in, const float* factor) {
  constexpr std::size_t kEights = kBlock / 8;
  Block<kBlock> block;
  Eight(&v)[kEights] = block.v;
#pragma GCC unroll 16
  for (std::size_t k = 0; k < kEights; ++k) {
    Eight x, f;
    std::memcpy(&x, in + 8 * k, sizeof(x));
    std::memcpy(&f, factor + 8 * k, sizeof(f));
    v[k] = butterfly<4>(butterfly<2>(butterfly<1>(x * f)));
  }
#pragma GCC unroll 8
  for (std::size_t half = 1; half < kEights; half *= 2)
#pragma GCC unroll 16
    for (std::size_t i = 0; i < kEights / 2; ++i) {
      const std::size_t k = i / half * 2 * half + i % half;
      const Eight a = v[k], c = v[k + half];
      v[k] = a + c;
      v[k + half] = a - c;
    }
  return block;
}

// body(row, column, block) for whole blocks, row by row: memory is read in order.
template <std::size_t kBlock>
MOESCOPE_INLINE void for_each_block(const MatrixView& in, std::size_t first, std::size_t count, const float* factor,
                                    const auto& body) {
  const std::size_t rows = in.rows, stride = in.stride;
  for (std::size_t r = 0; r < rows; ++r) {
    const float* x = in.data + r * stride + first;
    for (std::size_t k = 0; k < count; k += kBlock) body(r, first + k, rotated_block<kBlock>(x + k, factor + k));
  }
}

template <std::size_t kBlock>
MOESCOPE_INLINE void rotate_blocks(const MatrixView& in, std::size_t first, std::size_t count, const float* factor,
                                   float* out, std::size_t out_stride) {
  for_each_block<kBlock>(
      in, first, count,
      factor, [&](std::size_t r, std::size_t c, const Block<kBlock>& block) __attribute__((always_inline)) {
        float* to = out + r * out_stride + c;
#pragma GCC unroll 16
        for (std::size_t k = 0; k < kBlock / 8; ++k) std::memcpy(to + 8 * k, &block.v[k], sizeof(Eight));
      });
}

template <std::size_t kBlock>
MOESCOPE_INLINE void raise_amax(const Block<kBlock>& block, EightInts& top) {
#pragma GCC unroll 16
  for (const Eight v : block.v) {
    const EightInts magnitude = (EightInts)v & kMagnitudeMask;
    top = magnitude > top ? magnitude : top;
  }
}

MOESCOPE_INLINE std::int32_t largest_of(EightInts top) {
  std::int32_t largest = 0;
  for (int l = 0; l < 8; ++l) largest = std::max(largest, top[l]);
  return largest;
}

template <std::size_t kBlock>
MOESCOPE_INLINE std::int32_t blocks_amax(const MatrixView& in, std::size_t first, std::size_t count,
                                         const float* factor) {
  EightInts top{};
  for_each_block<kBlock>(
      in, first, count,
      factor, [&](std::size_t r, std::size_t c, const Block<kBlock>& block) __attribute__((always_inline)) {
        const float* x = in.data + r * in.stride + c;
        if (c % kPage == 0) __builtin_prefetch(x + kPagesAhead * kPage);  // its address translated meanwhile
        for (std::size_t i = 0; i < kBlock; i += kSixteen) __builtin_prefetch(x + i + 4 * kPage, 0, kSecondCache);
        raise_amax(block, top);
      });
  return largest_of(top);
}

// What the magnitudes of sixteen blocks of sixteen add up to.
MOESCOPE_INLINE Floats block_sums(const float* x) {
  alignas(64) float quarters[4 * kSixteen];
#pragma GCC unroll 4
  for (std::size_t quarter = 0; quarter < 4; ++quarter) {
    Floats v[4];
#pragma GCC unroll 4
    for (std::size_t k = 0; k < 4; ++k) v[k] = (Floats)magnitude_bits(load(x + (4 * quarter + k) * kSixteen));
    store(quarters + quarter * kSixteen, joined_quarters<float>(v, kSum));
  }
  return joined_sixteen<float>(quarters, kSum);
}

// As blocks_amax, of blocks of sixteen: of a stretch that cannot hold a value larger than `known` none is rotated.
MOESCOPE_INLINE std::int32_t sixteens_amax(const MatrixView& in, std::size_t first, std::size_t count,
                                           const float* factor, std::int32_t known) {
  constexpr std::size_t kGroup = kSixteen * kSixteen, kStretch = 4 * kGroup;  // to decide seldom lets loads run ahead
  std::int32_t top = known;
  for (std::size_t r = 0; r < in.rows; ++r) {
    const float* x = in.data + r * in.stride + first;
    for (std::size_t k = 0, length; k < count; k += length) {
      length = std::min(kStretch, count - k);
      if (length >= kGroup) length = length / kGroup * kGroup;
      if (k % kPage == 0) __builtin_prefetch(x + k + kPagesAhead * kPage);
      Ints bounds{};
      for (std::size_t i = k; i + kGroup <= k + length; i += kGroup)
        bounds = larger(bounds, (Ints)(block_sums(x + i) * kSumBound));  // a NaN is above all numbers
      if (length >= kGroup && max_of<std::int32_t>(bounds) <= top) continue;
      EightInts largest{};
      for (std::size_t i = k; i < k + length; i += kSixteen)
        raise_amax(rotated_block<kSixteen>(x + i, factor + i), largest);
      top = std::max(top, largest_of(largest));
    }
  }
  return top;
}

}  // namespace

MOESCOPE_SIMD void rotate_row_blocks(const MatrixView& in, std::size_t first, std::size_t count, std::size_t n,
                                     const float* factor, float* out, std::size_t out_stride) {
  with_size<8>(
      n, [&]<std::size_t kBlock>()
             __attribute__((always_inline)) { rotate_blocks<kBlock>(in, first, count, factor, out, out_stride); });
}

MOESCOPE_SIMD std::int32_t rotated_row_amax(const MatrixView& in, std::size_t first, std::size_t count, std::size_t n,
                                            const float* factor, std::int32_t top) {
  if (n == kSixteen) return sixteens_amax(in, first, count, factor, top);
  with_size<8>(
      n, [&]<std::size_t kBlock>()
             __attribute__((always_inline)) { top = std::max(top, blocks_amax<kBlock>(in, first, count, factor)); });
  return top;
}

}  // namespace moescope
