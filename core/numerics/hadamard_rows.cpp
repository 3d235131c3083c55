#include "core/numerics/hadamard_rows.h"

#include <cassert>
#include <cstring>

#include "core/numerics/lanes.h"
#include "core/numerics/simd.h"

namespace moescope {
namespace {

constexpr std::size_t kLine = kLanes<float>;  // of the cache

typedef float Eight __attribute__((vector_size(32)));

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

// Whole blocks of n, row by row: memory is read in order.
template <std::size_t kBlock>
MOESCOPE_INLINE void rotate_blocks(const MatrixView& in, std::size_t first, std::size_t count, const float* factor,
                                   float* out, std::size_t out_stride, std::size_t ahead) {
  const std::size_t rows = in.rows, stride = in.stride;
  for (std::size_t r = 0; r < rows; ++r) {
    const float* x = in.data + r * stride + first;
    float* to = out + r * out_stride + first;
    for (std::size_t k = 0; k < count; k += kBlock) {
      for (std::size_t i = 0; i < kBlock; i += kLine) __builtin_prefetch(x + k + i + ahead);
      rotate_block<kBlock>(x + k, factor + k, to + k);
    }
  }
}

}  // namespace

MOESCOPE_SIMD void rotate_row_blocks(const MatrixView& in, std::size_t first, std::size_t count, std::size_t n,
                                     const float* factor, float* out, std::size_t out_stride, std::size_t ahead) {
  switch (n) {
    case 8:
      return rotate_blocks<8>(in, first, count, factor, out, out_stride, ahead);
    case 16:
      return rotate_blocks<16>(in, first, count, factor, out, out_stride, ahead);
    case 32:
      return rotate_blocks<32>(in, first, count, factor, out, out_stride, ahead);
    case 64:
      return rotate_blocks<64>(in, first, count, factor, out, out_stride, ahead);
    case 128:
      return rotate_blocks<128>(in, first, count, factor, out, out_stride, ahead);
  }
  assert(false);
}

}  // namespace moescope
