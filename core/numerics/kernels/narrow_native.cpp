#include "core/numerics/kernels/narrow_native.h"

#include <array>
#include <cassert>
#include <cstdint>

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

#define MOESCOPE_AVX512_BF16 [[gnu::target("avx512f,avx512bw,avx512vl,avx512bf16")]]

namespace {

constexpr std::size_t kFloats = 16;

__mmask16 first_lanes(std::size_t count) {
  return static_cast<__mmask16>(count >= kFloats ? 0xFFFF : (1u << count) - 1);
}

// Of two vectors of sixteen, one after the other: their elements side by side.
constexpr auto kSideBySide = [] {
  std::array<std::uint16_t, 2 * kFloats> order{};
  for (std::uint16_t i = 0; i < kFloats; ++i)
    order[2u * i] = i, order[2u * i + 1] = static_cast<std::uint16_t>(kFloats + i);
  return order;
}();

}  // namespace

MOESCOPE_AVX512_BF16 void narrow_natively(const float* in, std::size_t n, Bf16* out) {
  std::size_t i = 0;
  for (; i + 2 * kFloats <= n; i += 2 * kFloats) {
    const __m512bh both = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(in + i + kFloats), _mm512_loadu_ps(in + i));
    _mm512_storeu_si512(out + i, reinterpret_cast<const __m512i&>(both));
  }
  for (; i < n; i += kFloats) {
    const __mmask16 lanes = first_lanes(n - i);
    const __m256bh half = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(lanes, in + i));
    _mm256_mask_storeu_epi16(out + i, lanes, reinterpret_cast<const __m256i&>(half));
  }
}

MOESCOPE_AVX512_BF16 void narrow_pair_natively(const float* upper, const float* lower, std::size_t n, Bf16* out) {
  const __m512i order = _mm512_loadu_si512(kSideBySide.data());
  for (std::size_t i = 0; i < n; i += kFloats) {
    const __mmask16 lanes = first_lanes(n - i);
    const __m512bh both =
        _mm512_cvtne2ps_pbh(_mm512_maskz_loadu_ps(lanes, lower + i), _mm512_maskz_loadu_ps(lanes, upper + i));
    _mm512_mask_storeu_epi32(out + 2 * i, lanes,
                             _mm512_permutexvar_epi16(order, reinterpret_cast<const __m512i&>(both)));
  }
}

#undef MOESCOPE_AVX512_BF16

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

#endif

}  // namespace moescope
