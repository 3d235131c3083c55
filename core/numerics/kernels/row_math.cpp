#include "core/numerics/kernels/row_math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/numerics/kernels/row_math.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>

#include "core/numerics/kernels/exponential.h"

HWY_BEFORE_NAMESPACE();
namespace moescope {
namespace HWY_NAMESPACE {
namespace {

template <class T>
HWY_INLINE void add_scaled_lanes(T weight, const T* x, std::size_t n, T* y) {
  for (std::size_t i = 0; i < n; i += kLanes<T>)
    store_first(y + i, fused(splat(weight), load_first(x + i, n - i), load_first(y + i, n - i)), n - i);
}

template <class T>
HWY_INLINE void sigmoid_lanes(const T* in, std::size_t n, T* out) {
  for (std::size_t i = 0; i < n; i += kLanes<T>) store_first(out + i, sigmoid(load_first(in + i, n - i)), n - i);
}

template <class T>
HWY_INLINE T largest_scaled(const T* in, std::size_t n, T scale) {
  if (n < kLanes<T>) {
    T largest = in[0] * scale;
    for (std::size_t i = 1; i < n; ++i) largest = std::max(largest, in[i] * scale);
    return largest;
  }
  Lanes<T> top = load(in + n - kLanes<T>) * scale;  // reads some values twice
  for (std::size_t i = 0; i + kLanes<T> < n; i += kLanes<T>) top = larger(top, load(in + i) * scale);
  return max_of(top);
}

// Values that do not fill all lanes are added last, one by one.
template <class T>
HWY_INLINE T softmax_lanes(const T* in, std::size_t n, T scale, T* out, T* largest) {
  const T largest_scaled_value = largest_scaled(in, n, scale);
  if (largest) *largest = largest_scaled_value;
  const Lanes<T> minus_most = splat(-largest_scaled_value);
  const std::size_t whole = n / kLanes<T> * kLanes<T>;
  Lanes<T> total = zero<T>();
  for (std::size_t i = 0; i < whole; i += kLanes<T>) {
    const Lanes<T> e = exp_lanes(fused(load(in + i), splat(scale), minus_most));
    total += e;
    store(out + i, e);
  }
  T sum = sum_of(total);
  if (whole < n)
    store_first(out + whole, exp_lanes(fused(load_first(in + whole, n - whole), splat(scale), minus_most)), n - whole);
  for (std::size_t i = whole; i < n; ++i) sum += out[i];
  const T inverse = T{1} / sum;
  for (std::size_t i = 0; i < whole; i += kLanes<T>) store(out + i, load(out + i) * inverse);
  for (std::size_t i = whole; i < n; ++i) out[i] *= inverse;
  return largest_scaled_value + static_cast<T>(ordered_log(static_cast<double>(sum)));
}

template <class T>
HWY_INLINE void softmax_backward_lanes(T* s_to_p, T* dp_to_ds, std::size_t n, T scale, T lse, T delta) {
  const Lanes<T> scales = splat(scale), minus_lse = splat(-lse), deltas = splat(delta);
  for (std::size_t i = 0; i < n; i += kLanes<T>) {
    const Lanes<T> p = exp_lanes(fused(load(s_to_p + i), scales, minus_lse));
    store(s_to_p + i, p);
    store(dp_to_ds + i, p * (load(dp_to_ds + i) - deltas) * scales);
  }
}

void softmax_backward_columns_float(float* s_to_p, float* dp_to_ds, std::size_t count, std::size_t n, float scale,
                                    const float* lse, const float* delta) {
  const Floats scales = splat(scale);
  for (std::size_t k = 0; k < count; ++k, s_to_p += n, dp_to_ds += n)
    for (std::size_t i = 0; i < n; i += kSixteen) {
      const Floats p = exp_lanes(fused(load(s_to_p + i), scales, -load(lse + i)));
      store(s_to_p + i, p);
      store(dp_to_ds + i, p * (load(dp_to_ds + i) - load(delta + i)) * scales);
    }
}

HWY_INLINE Floats rounded_for_units(Floats x) {
  const Words bits = bits_as<std::uint32_t>(x), sign = bits & splat(0x80000000u);
  const Ints magnitude = magnitude_bits(x), infinity = splat(0x7F800000);
  const Words up = (bits + splat(0x7FFFu) + (shifted_right<16>(bits) & splat(1u))) & splat(0xFFFF0000u);
  const Words quiet_nan = (bits | splat(0x00400000u)) & splat(0xFFFF0000u);
  const Ints number = if_less(infinity, magnitude, bits_as<std::int32_t>(quiet_nan), bits_as<std::int32_t>(up));
  return bits_as<float>(if_less(magnitude, splat(0x00800000), bits_as<std::int32_t>(sign), number));
}

void narrow_row(const float* in, std::size_t n, Bf16* out) {
  for (std::size_t i = 0; i < n; i += kSixteen)
    store_upper_halves(out + i, rounded_for_units(load_first(in + i, n - i)), n - i);
}
void round_row(const float* in, std::size_t n, float* out) {
  for (std::size_t i = 0; i < n; i += kSixteen)
    store_first(out + i, rounded_for_units(load_first(in + i, n - i)), n - i);
}

#define MOESCOPE_ROW_MATH(T)                                                                  \
  T dot_##T(const T* a, const T* b, std::size_t n) {                                          \
    return dot(a, b, n);                                                                      \
  }                                                                                           \
  void add_scaled_##T(T weight, const T* x, std::size_t n, T* y) {                            \
    add_scaled_lanes(weight, x, n, y);                                                        \
  }                                                                                           \
  void sigmoid_##T(const T* in, std::size_t n, T* out) {                                      \
    sigmoid_lanes(in, n, out);                                                                \
  }                                                                                           \
  T softmax_##T(const T* in, std::size_t n, T scale, T* out, T* largest) {                    \
    return softmax_lanes(in, n, scale, out, largest);                                         \
  }                                                                                           \
  void softmax_backward_##T(T* s_to_p, T* dp_to_ds, std::size_t n, T scale, T lse, T delta) { \
    softmax_backward_lanes(s_to_p, dp_to_ds, n, scale, lse, delta);                           \
  }
MOESCOPE_ROW_MATH(float)
MOESCOPE_ROW_MATH(double)
#undef MOESCOPE_ROW_MATH

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace moescope
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "core/numerics/kernels/narrow_native.h"

namespace moescope {

#define MOESCOPE_ROW_MATH(T)                                                                  \
  HWY_EXPORT(dot_##T);                                                                        \
  HWY_EXPORT(add_scaled_##T);                                                                 \
  HWY_EXPORT(sigmoid_##T);                                                                    \
  HWY_EXPORT(softmax_##T);                                                                    \
  HWY_EXPORT(softmax_backward_##T);                                                           \
  T dot(const T* a, const T* b, std::size_t n) {                                              \
    return HWY_DYNAMIC_DISPATCH(dot_##T)(a, b, n);                                            \
  }                                                                                           \
  void add_scaled(T weight, const T* x, std::size_t n, T* y) {                                \
    HWY_DYNAMIC_DISPATCH(add_scaled_##T)(weight, x, n, y);                                    \
  }                                                                                           \
  void sigmoid_row(const T* in, std::size_t n, T* out) {                                      \
    HWY_DYNAMIC_DISPATCH(sigmoid_##T)(in, n, out);                                            \
  }                                                                                           \
  T softmax_row(const T* in, std::size_t n, T scale, T* out, T* largest) {                    \
    return HWY_DYNAMIC_DISPATCH(softmax_##T)(in, n, scale, out, largest);                     \
  }                                                                                           \
  void softmax_backward_row(T* s_to_p, T* dp_to_ds, std::size_t n, T scale, T lse, T delta) { \
    HWY_DYNAMIC_DISPATCH(softmax_backward_##T)(s_to_p, dp_to_ds, n, scale, lse, delta);       \
  }
MOESCOPE_ROW_MATH(float)
MOESCOPE_ROW_MATH(double)
#undef MOESCOPE_ROW_MATH

HWY_EXPORT(softmax_backward_columns_float);
void softmax_backward_columns(float* s_to_p, float* dp_to_ds, std::size_t count, std::size_t n, float scale,
                              const float* lse, const float* delta) {
  HWY_DYNAMIC_DISPATCH(softmax_backward_columns_float)(s_to_p, dp_to_ds, count, n, scale, lse, delta);
}

HWY_EXPORT(narrow_row);
HWY_EXPORT(round_row);
void round_to_unit_bf16(const float* in, std::size_t n, Bf16* out) {
  if (can_narrow_natively()) return narrow_natively(in, n, out);
  HWY_DYNAMIC_DISPATCH(narrow_row)(in, n, out);
}
void round_to_unit_bf16(const float* in, std::size_t n, float* out) {
  HWY_DYNAMIC_DISPATCH(round_row)(in, n, out);
}
void round_to_unit_bf16(const double* in, std::size_t n, double* out) {
  for (std::size_t i = 0; i < n; ++i) {
    const float narrow = static_cast<float>(in[i]);
    float rounded = 0;
    round_to_unit_bf16(&narrow, 1, &rounded);
    out[i] = rounded;
  }
}

}  // namespace moescope
#endif
