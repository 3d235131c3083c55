#include "core/numerics/hadamard.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>

#include "core/numerics/counter_bits.h"
#include "core/numerics/lanes.h"
#include "core/numerics/simd.h"

namespace moescope {
namespace {

constexpr std::size_t kMaxBlock = 128;
constexpr std::size_t kFactors = 1024;  // of a stretch of a row, a multiple of every block
constexpr std::size_t kWidth = kLanes<float>;

MOESCOPE_INLINE float sign_of(std::uint64_t seed, std::size_t index) {
  return mix_bits(mix_bits(seed) ^ index) & 1 ? -1.0f : 1.0f;
}

// Signs of `count` values of blocks of n, times 1 / sqrt(n).
void find_factors(std::uint64_t seed, std::size_t first, std::size_t n, std::size_t count, float* factor) {
  const float norm = static_cast<float>(1 / std::sqrt(static_cast<double>(n)));
  for (std::size_t i = 0; i < count; ++i) factor[i] = norm * sign_of(seed, first + i);
}

// Down columns: neighbouring columns side by side
// -----------------------------------------------------------------------

// The n values of sixteen columns, the first `lanes` of them given.
template <std::size_t kBlock>
MOESCOPE_INLINE void rotate_sixteen_columns(const float* in, std::size_t stride, std::size_t lanes, const float* factor,
                                            float* out, std::size_t out_stride) {
  Lanes<float> v[kBlock];
  const int count = static_cast<int>(lanes);
#pragma GCC unroll 16
  for (std::size_t k = 0; k < kBlock; ++k)
    v[k] = (lanes == kWidth ? load(in + k * stride) : load_first(in + k * stride, count)) * factor[k];
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
                                    float* out, std::size_t out_stride) {
  for (std::size_t c = 0; c < cols; c += kWidth)
    rotate_sixteen_columns<kBlock>(in + c, stride, std::min(kWidth, cols - c), factor, out + c, out_stride);
}

MOESCOPE_SIMD void rotate_columns(const float* in, std::size_t stride, std::size_t n, std::size_t cols,
                                  const float* factor, float* out, std::size_t out_stride) {
  switch (n) {
#define MOESCOPE_BLOCK(size) \
  case size:                 \
    return rotate_columns<size>(in, stride, cols, factor, out, out_stride);
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

typedef float Eight __attribute__((vector_size(32)));

// a + b in the lower of two places that are `half` apart, a - b in the upper; b's sign makes one product exact.
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
MOESCOPE_INLINE void rotate_block(const float* in, const float* factor, float* out) {
  constexpr std::size_t kEights = kBlock / 8;
  Eight v[kEights];
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
#pragma GCC unroll 16
  for (std::size_t k = 0; k < kEights; ++k) std::memcpy(out + 8 * k, &v[k], sizeof(v[k]));
}

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

// Whole blocks of n, row by row: memory is read in order.
template <std::size_t kBlock>
MOESCOPE_INLINE void rotate_blocks(const MatrixView& in, std::size_t first, std::size_t count, const float* factor,
                                   float* out, std::size_t out_stride) {
  for (std::size_t r = 0; r < in.rows; ++r)
    for (std::size_t k = first; k < first + count; k += kBlock) {
      const float* x = in.data + r * in.stride + k;
      for (std::size_t i = 0; i < kBlock; i += kWidth) __builtin_prefetch(x + in.stride + i);  // the next row's
      rotate_block<kBlock>(x, factor + k - first, out + r * out_stride + k);
    }
}

// Columns [first, first + count), a multiple of n.
MOESCOPE_SIMD void rotate_rows(const MatrixView& in, std::size_t first, std::size_t count, std::size_t n,
                               const float* factor, float* out, std::size_t out_stride) {
  switch (n) {
    case 8:
      return rotate_blocks<8>(in, first, count, factor, out, out_stride);
    case 16:
      return rotate_blocks<16>(in, first, count, factor, out, out_stride);
    case 32:
      return rotate_blocks<32>(in, first, count, factor, out, out_stride);
    case 64:
      return rotate_blocks<64>(in, first, count, factor, out, out_stride);
    case 128:
      return rotate_blocks<128>(in, first, count, factor, out, out_stride);
  }
  assert(n == count);
  for (std::size_t r = 0; r < in.rows; ++r)
    rotate_few(in.data + r * in.stride + first, n, factor, out + r * out_stride + first);
}

}  // namespace

void hadamard_rotate(MatrixView in, BlockAxis axis, int block, std::uint64_t seed, std::size_t first, float* out,
                     std::size_t out_stride) {
  assert(block > 0 && static_cast<std::size_t>(block) <= kMaxBlock &&
         std::has_single_bit(static_cast<unsigned>(block)));
  assert(first % static_cast<std::size_t>(block) == 0);
  const std::size_t length = axis == BlockAxis::row ? in.cols : in.rows;
  for (std::size_t k = 0, count = 0; k < length; k += count) {
    const std::size_t whole = static_cast<std::size_t>(block);
    const std::size_t n = std::min(whole, std::bit_floor(length - k));
    count = n == whole && axis == BlockAxis::row ? std::min((length - k) / n * n, kFactors) : n;
    alignas(64) float factor[kFactors];
    find_factors(seed, first + k, n, count, factor);
    if (axis == BlockAxis::row)
      rotate_rows(in, k, count, n, factor, out, out_stride);
    else
      rotate_columns(in.data + k * in.stride, in.stride, n, in.cols, factor, out + k * out_stride, out_stride);
  }
}

}  // namespace moescope
