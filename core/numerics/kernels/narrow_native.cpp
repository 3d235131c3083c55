#include "core/numerics/kernels/narrow_native.h"

#include <cassert>

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

[[gnu::target("avx512f,avx512bw,avx512vl,avx512bf16")]] void narrow_natively(const float* in, std::size_t n,
                                                                             Bf16* out) {
  constexpr std::size_t kLanes = 16;
  std::size_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    const __m512bh both = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(in + i + kLanes), _mm512_loadu_ps(in + i));
    _mm512_storeu_si512(out + i, reinterpret_cast<const __m512i&>(both));
  }
  for (; i < n; i += kLanes) {
    const auto lanes = static_cast<__mmask16>(n - i >= kLanes ? 0xFFFF : (1u << (n - i)) - 1);
    const __m256bh half = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(lanes, in + i));
    _mm256_mask_storeu_epi16(out + i, lanes, reinterpret_cast<const __m256i&>(half));
  }
}

#else

bool can_narrow_natively() {
  return false;
}

void narrow_natively(const float*, std::size_t, Bf16*) {
  assert(false);
}

#endif

}  // namespace moescope
