#include "core/numerics/kernels/narrow_native.h"

#include <array>
#include <cassert>
#include <cstdint>

#include "core/numerics/kernels/tile_products.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace moescope {

#if defined(__x86_64__)

bool can_narrow_natively() {
  static const bool can =
      __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
  return can;
}

// GCC 12 warns of variables that its own intrinsics leave undefined.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#define MOESCOPE_AVX512_BF16 [[gnu::target("avx512f,avx512bw,avx512vl,avx512bf16")]]

namespace {

constexpr std::size_t kFloats = 16;

__mmask16 first_lanes(std::size_t count) {
  return static_cast<__mmask16>(count >= kFloats ? 0xFFFF : (1u << count) - 1);
}

// Indices that put the elements of two vectors of sixteen side by side.
constexpr auto kSideBySide = [] {
  std::array<std::uint16_t, 2 * kFloats> order{};
  for (std::uint16_t i = 0; i < kFloats; ++i) {
    order[2u * i] = i;
    order[2u * i + 1] = static_cast<std::uint16_t>(kFloats + i);
  }
  return order;
}();

MOESCOPE_AVX512_BF16 inline __m512i side_by_side(__m512 upper, __m512 lower, __m512i order) {
  const __m512bh both = _mm512_cvtne2ps_pbh(lower, upper);
  return _mm512_permutexvar_epi16(order, reinterpret_cast<const __m512i&>(both));
}

}  // namespace

MOESCOPE_AVX512_BF16 void narrow_natively(const float* in, std::size_t n, Bf16* out) {
  std::size_t i = 0;
  for (; i + 2 * kFloats <= n; i += 2 * kFloats) {
    const __m512bh both = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(in + i + kFloats), _mm512_loadu_ps(in + i));
    _mm512_storeu_si512(out + i, reinterpret_cast<const __m512i&>(both));
  }
  for (; i < n; i += kFloats) {
    const __mmask16 lanes = first_lanes(n - i);
    const __m256bh narrowed = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(lanes, in + i));
    _mm256_mask_storeu_epi16(out + i, lanes, reinterpret_cast<const __m256i&>(narrowed));
  }
}

MOESCOPE_AVX512_BF16 void narrow_pair_natively(const float* upper, const float* lower, std::size_t n, Bf16* out) {
  const __m512i order = _mm512_loadu_si512(kSideBySide.data());
  for (std::size_t i = 0; i < n; i += kFloats) {
    const __mmask16 lanes = first_lanes(n - i);
    _mm512_mask_storeu_epi32(
        out + 2 * i, lanes,
        side_by_side(_mm512_maskz_loadu_ps(lanes, upper + i), _mm512_maskz_loadu_ps(lanes, lower + i), order));
  }
}

MOESCOPE_AVX512_BF16 bool narrow_to_panels(ConstMatrix<float> rows, Bf16* out, Index panel_stride) {
  constexpr Index kRowsAhead = 16;  // rows to prefetch, because a gradient's operand has mostly left the caches
  const __m512i order = _mm512_loadu_si512(kSideBySide.data());
  const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF), one = _mm512_set1_epi32(1);
  __m512i smallest_magnitude = magnitude;  // smallest magnitude's bits minus one, which makes zero the largest
  const float* in = rows.data;
  for (Index r = 0; r < to_tiles(rows.rows, kUnitDepth); r += 2, in += 2 * rows.stride, out += 2 * kUnitRows)
    for (Index c = 0; c < rows.cols; c += kUnitRows) {
      const float* next = in + rows.stride + c;
      const __mmask16 present_lanes = first_lanes(rows.cols - c);
      for (const Index ahead : {kRowsAhead, kRowsAhead + 1}) _mm_prefetch(in + c + ahead * rows.stride, _MM_HINT_T0);
      const __m512 upper = _mm512_maskz_loadu_ps(r < rows.rows ? present_lanes : __mmask16{0}, in + c);
      const __m512 lower = _mm512_maskz_loadu_ps(r + 1 < rows.rows ? present_lanes : __mmask16{0}, next);
      for (const __m512 x : {upper, lower}) {
        const __m512i bits = _mm512_and_si512(_mm512_castps_si512(x), magnitude);
        smallest_magnitude = _mm512_min_epu32(smallest_magnitude, _mm512_sub_epi32(bits, one));
      }
      _mm512_storeu_si512(out + c / kUnitRows * panel_stride, side_by_side(upper, lower, order));
    }
  return _mm512_reduce_min_epu32(smallest_magnitude) >= 0x00800000u - 1;
}

#undef MOESCOPE_AVX512_BF16
#pragma GCC diagnostic pop

#else

bool can_narrow_natively() {
  return false;
}

void narrow_natively(const float*, std::size_t, Bf16*) {
  assert(false);
}
void narrow_pair_natively(const float*, const float*, std::size_t, Bf16*) {
  assert(false);
}
bool narrow_to_panels(ConstMatrix<float>, Bf16*, Index) {
  assert(false);
  return false;
}

#endif

}  // namespace moescope
