// 64-byte vectors for the element-wise passes, and sums whose order is fixed by the length alone.
//
// Only for use inside functions marked MOESCOPE_SIMD: everything here is inlined into them and takes their
// instruction set. Without one of its own a lane operation becomes several smaller ones, with the same results.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#define MOESCOPE_INLINE inline __attribute__((always_inline))

// Vectors are never passed to a function that is not inlined, so their calling convention does not matter. GCC warns
// where such a function is used, so this holds for the rest of the including file.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace moescope {

template <class T>
struct LanesOf {
  typedef T type __attribute__((vector_size(64)));
};
template <class T>
using Lanes = typename LanesOf<T>::type;
template <class T>
inline constexpr int kLanes = static_cast<int>(64 / sizeof(T));

template <class T>
MOESCOPE_INLINE Lanes<T> load(const T* p) {
  Lanes<T> v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}
template <class T>
MOESCOPE_INLINE void store(T* p, Lanes<T> v) {
  std::memcpy(p, &v, sizeof(v));
}
// The first `count` lanes, zeros after them.
template <class T>
MOESCOPE_INLINE Lanes<T> load_first(const T* p, int count) {
  Lanes<T> v = {};
  std::memcpy(&v, p, static_cast<std::size_t>(count) * sizeof(T));
  return v;
}
template <class T>
MOESCOPE_INLINE void store_first(T* p, Lanes<T> v, int count) {
  std::memcpy(p, &v, static_cast<std::size_t>(count) * sizeof(T));
}

// Joins the lanes of v, its upper half with the lower one first, in registers.
template <class T, std::size_t... kIndex>
MOESCOPE_INLINE T joined(auto v, const auto& join, std::index_sequence<kIndex...>) {
  if constexpr (constexpr std::size_t kHalf = sizeof...(kIndex); kHalf == 2)
    return join(join(v[0], v[2]), join(v[1], v[3]));
  else
    return joined<T>(join(__builtin_shufflevector(v, v, kIndex...), __builtin_shufflevector(v, v, kHalf + kIndex...)),
                     join, std::make_index_sequence<kHalf / 2>());
}
template <class T, class Join>
MOESCOPE_INLINE T joined(Lanes<T> v, const Join& join) {
  return joined<T>(v, join, std::make_index_sequence<kLanes<T> / 2>());
}
inline constexpr auto kLarger = [](auto a, auto b) __attribute__((always_inline)) {
  return a < b ? b : a;
};
inline constexpr auto kSum = [](auto a, auto b) __attribute__((always_inline)) {
  return a + b;
};

template <class T>
MOESCOPE_INLINE T sum_of(Lanes<T> v) {
  return joined<T>(v, kSum);
}
template <class T>
MOESCOPE_INLINE T max_of(Lanes<T> v) {
  return joined<T>(v, kLarger);
}

template <class T>
MOESCOPE_INLINE T dot(const T* a, const T* b, int n) {
  Lanes<T> acc = {};
  int i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>) acc += load(a + i) * load(b + i);
  if (i < n) acc += load_first(a + i, n - i) * load_first(b + i, n - i);
  return sum_of<T>(acc);
}

// e^x, at most 2 ulp from exact for results in the normal range; 0 below about -87.3, +inf above about 88.7.
// x = n ln 2 + r with |r| <= ln 2 / 2; e^r by its Taylor polynomial of degree 7 (error below 2^-27).
MOESCOPE_INLINE Lanes<float> exp_lanes(Lanes<float> x) {
  typedef std::int32_t Ints __attribute__((vector_size(64)));
  constexpr float kRound = 0x1.8p23f;  // adding it leaves the nearest integer in the low bits
  constexpr float kLn2High = 0x1.62e4p-1f, kLn2Low = 0x1.7f7d1cp-20f;  // high part: 16 bits, so n * high is exact
  const Lanes<float> clamped = x < -88.0f ? Lanes<float>{} - 88.0f : (x > 89.0f ? Lanes<float>{} + 89.0f : x);
  const Lanes<float> shifted = clamped * 0x1.715476p0f + kRound;
  const Lanes<float> n = shifted - kRound;
  const Lanes<float> r = (clamped - n * kLn2High) - n * kLn2Low;
  Lanes<float> p = r * (1.0f / 5040) + (1.0f / 720);
  p = p * r + (1.0f / 120);
  p = p * r + (1.0f / 24);
  p = p * r + (1.0f / 6);
  p = p * r + 0.5f;
  p = p * r * r + r + 1.0f;
  // 2^n in two factors, so that n = 128 still gives a finite first half.
  const Ints k = __builtin_convertvector(n, Ints);
  const Ints half = k >> 1;
  const Ints low_bits = (half + 127) << 23, high_bits = (k - half + 127) << 23;
  Lanes<float> low, high;
  std::memcpy(&low, &low_bits, sizeof(low));
  std::memcpy(&high, &high_bits, sizeof(high));
  const Lanes<float> y = p * low * high;
  return x < -87.3f ? Lanes<float>{} : (x == x ? y : x);
}
MOESCOPE_INLINE Lanes<double> exp_lanes(Lanes<double> x) {
  for (int i = 0; i < kLanes<double>; ++i) x[i] = std::exp(x[i]);
  return x;
}

}  // namespace moescope
