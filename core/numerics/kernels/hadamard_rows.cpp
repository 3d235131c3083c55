#include "core/numerics/kernels/hadamard_rows.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "core/numerics/kernels/element_lanes.h"
#include "core/numerics/kernels/lane_joins.h"
#include "core/numerics/kernels/simd.h"
#include "core/numerics/kernels/streaming.h"

namespace moescope {
namespace {

constexpr std::size_t kSixteen = kLanes<float>;
static_assert(kSumBlock == kSixteen);

typedef float Eight __attribute__((vector_size(32)));

// a + b in the lower of two places that are `half` apart, a - b in the upper. The products by a sign are exact, so that
// adding them in the same operation rounds as adding them afterwards.
template <int kHalf, class Vector, int... kLane>
MOESCOPE_INLINE Vector butterfly(Vector v, std::integer_sequence<int, kLane...>) {
  constexpr Vector kSigns = {(kLane & kHalf ? -1.0f : 1.0f)...};
  return __builtin_shufflevector(v, v, (kLane ^ kHalf)...) + v * kSigns;
}

// Neighbours as they meet from `kHalf` on within one vector.
template <int kHalf = 1, class Vector>
MOESCOPE_INLINE Vector joined_lanes(Vector v) {
  constexpr int kCount = sizeof(Vector) / sizeof(float);
  if constexpr (kHalf == kCount)
    return v;
  else
    return joined_lanes<2 * kHalf>(butterfly<kHalf>(v, std::make_integer_sequence<int, kCount>()));
}

// kBlock neighbours: eight, or a multiple of sixteen.
template <std::size_t kBlock>
struct Block {
  using Vector = std::conditional_t<kBlock == 8, Eight, Floats>;
  static constexpr std::size_t kPerVector = sizeof(Vector) / sizeof(float), kVectors = kBlock / kPerVector;
  Vector v[kVectors];
};

template <std::size_t kBlock>
MOESCOPE_INLINE Block<kBlock> rotated_block(const float* in, const float* factor) {
  Block<kBlock> block;
  auto& v = block.v;
#pragma GCC unroll 8
  for (std::size_t k = 0; k < block.kVectors; ++k) {
    typename Block<kBlock>::Vector x, f;
    std::memcpy(&x, in + block.kPerVector * k, sizeof(x));
    std::memcpy(&f, factor + block.kPerVector * k, sizeof(f));
    v[k] = joined_lanes(x * f);
  }
#pragma GCC unroll 4
  for (std::size_t half = 1; half < block.kVectors; half *= 2)
#pragma GCC unroll 8
    for (std::size_t i = 0; i < block.kVectors / 2; ++i) {
      const std::size_t k = i / half * 2 * half + i % half;
      const auto a = v[k], c = v[k + half];
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
#pragma GCC unroll 8
        for (std::size_t k = 0; k < block.kVectors; ++k)
          std::memcpy(to + block.kPerVector * k, &block.v[k], sizeof(block.v[k]));
      });
}

MOESCOPE_INLINE Ints magnitudes(Floats v) {
  return magnitude_bits(v);
}
MOESCOPE_INLINE Ints magnitudes(Eight v) {
  return magnitude_bits(__builtin_shufflevector(v, Eight{}, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
}

template <std::size_t kBlock>
MOESCOPE_INLINE void raise_amax(const Block<kBlock>& block, Ints& top) {
#pragma GCC unroll 8
  for (const auto v : block.v) top = larger(top, magnitudes(v));
}

template <std::size_t kBlock>
MOESCOPE_INLINE std::int32_t blocks_amax(const MatrixView& in, std::size_t first, std::size_t count,
                                         const float* factor) {
  Ints top{};
  for_each_block<kBlock>(
      in, first, count,
      factor, [&](std::size_t r, std::size_t c, const Block<kBlock>& block) __attribute__((always_inline)) {
        const float* x = in.data + r * in.stride + c;
        if (c % kPage == 0) __builtin_prefetch(x + kPagesAhead * kPage);  // its address translated meanwhile
        for (std::size_t i = 0; i < kBlock; i += kSixteen) __builtin_prefetch(x + i + kAmaxAhead, 0, kSecondCache);
        raise_amax(block, top);
      });
  return max_of<std::int32_t>(top);
}

// What the magnitudes of sixteen blocks of sixteen add up to.
MOESCOPE_INLINE Floats block_sums(const float* x) {
  alignas(64) float quarters[4 * kSixteen];
#pragma GCC unroll 4
  for (std::size_t quarter = 0; quarter < 4; ++quarter) {
    Floats v[4];
#pragma GCC unroll 4
    for (std::size_t k = 0; k < 4; ++k) {
      const float* block = x + (4 * quarter + k) * kSixteen;
      __builtin_prefetch(block + kAmaxAhead, 0, kSecondCache);
      v[k] = (Floats)magnitude_bits(load(block));
    }
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
      Ints largest{};
      for (std::size_t i = k; i < k + length; i += kSixteen)
        raise_amax(rotated_block<kSixteen>(x + i, factor + i), largest);
      top = std::max(top, max_of<std::int32_t>(largest));
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
