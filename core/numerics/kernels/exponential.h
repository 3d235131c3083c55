// Functions on lanes that training needs: e^x, sigmoid, sums of products. lanes.h says how this file is included.
#if defined(MOESCOPE_EXPONENTIAL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MOESCOPE_EXPONENTIAL_H
#undef MOESCOPE_EXPONENTIAL_H
#else
#define MOESCOPE_EXPONENTIAL_H
#endif

#include <limits>

#include "core/numerics/elementary.h"
#include "core/numerics/kernels/lanes.h"

HWY_BEFORE_NAMESPACE();
namespace moescope {
namespace HWY_NAMESPACE {

// e^x, at most 2 ulp from exact for results in the normal range; 0 below about -87.3, +inf above about 88.7.
// x = n ln 2 + r with |r| <= ln 2 / 2; e^r by its Taylor polynomial of degree 7 (error below 2^-27).
HWY_INLINE Floats exp_lanes(Floats x) {
  constexpr float kRound = 0x1.8p23f;  // adding it leaves the nearest integer in the low bits
  constexpr float kLn2High = 0x1.62e4p-1f, kLn2Low = 0x1.7f7d1cp-20f;  // high part: 16 bits, so n * high is exact
  constexpr float kMinExponent = -87.3f, kInfinite = 0x1.62e43p+6f;    // above it e^x is infinite
  const Floats shifted = fused(x, splat(0x1.715476p0f), splat(kRound));
  const Floats n = shifted - kRound;
  const Floats r = fused(n, splat(-kLn2Low), fused(n, splat(-kLn2High), x));
  Floats p = fused(r, splat(1.0f / 5040), splat(1.0f / 720));
  p = fused(p, r, splat(1.0f / 120));
  p = fused(p, r, splat(1.0f / 24));
  p = fused(p, r, splat(1.0f / 6));
  p = fused(p, r, splat(0.5f));
  p = fused(p * r, r, r) + splat(1.0f);
  // n is added to the exponent: between the two limits, 2^n p is a normal number.
  const Floats y = bits_as<float>(bits_as<std::uint32_t>(p) + shifted_left<23>(bits_as<std::uint32_t>(shifted)));
  const Floats infinite_or_nan = x * std::numeric_limits<float>::max();
  return if_less(x, splat(kMinExponent), zero<float>(), if_less(x, splat(kInfinite), y, infinite_or_nan));
}
HWY_INLINE Lanes<double> exp_lanes(Lanes<double> x) {
  alignas(64) double values[kLanes<double>];
  store(values, x);
  for (double& v : values) v = ordered_exp(v);
  return load(values);
}

template <class T>
HWY_INLINE Lanes<T> sigmoid(Lanes<T> x) {
  const Lanes<T> one = splat(T{1});
  return one / (one + exp_lanes(-x));
}

template <class T>
HWY_INLINE T dot(const T* a, const T* b, std::size_t n) {
  Lanes<T> sum = zero<T>();
  for (std::size_t i = 0; i < n; i += kLanes<T>) sum = fused(load_first(a + i, n - i), load_first(b + i, n - i), sum);
  return sum_of(sum);
}

}  // namespace HWY_NAMESPACE
}  // namespace moescope
HWY_AFTER_NAMESPACE();

#endif
