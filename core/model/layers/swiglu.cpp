#include "core/model/layers/swiglu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/model/layers/swiglu.cpp"
#include <hwy/foreach_target.h>

#include "core/numerics/kernels/exponential.h"

HWY_BEFORE_NAMESPACE();
namespace moescope {
namespace HWY_NAMESPACE {
namespace {

template <class T>
HWY_INLINE void forward_row(const T* h1, const T* h3, std::size_t inter, T* a) {
  for (std::size_t i = 0; i < inter; i += kLanes<T>) {
    const std::size_t n = inter - i;
    const Lanes<T> x = load_first(h1 + i, n);
    store_first(a + i, x * sigmoid(x) * load_first(h3 + i, n), n);
  }
}

template <class T>
HWY_INLINE void backward_row(const T* da, const T* h1, const T* h3, std::size_t inter, T* dh1, T* dh3) {
  const Lanes<T> one = splat(T{1});
  for (std::size_t i = 0; i < inter; i += kLanes<T>) {
    const std::size_t n = inter - i;
    const Lanes<T> x = load_first(h1 + i, n), s = sigmoid(x), d = load_first(da + i, n);
    store_first(dh1 + i, d * load_first(h3 + i, n) * s * fused(x, one - s, one), n);
    store_first(dh3 + i, d * x * s, n);
  }
}

template <class T>
HWY_INLINE void forward_rows(const T* h13, std::size_t rows, int inter, T* a) {
  const std::size_t f = static_cast<std::size_t>(inter);
  for (std::size_t r = 0; r < rows; ++r) forward_row(h13 + 2 * r * f, h13 + (2 * r + 1) * f, f, a + r * f);
}

template <class T>
HWY_INLINE void backward_rows(const T* da, const T* h13, std::size_t rows, int inter, T* dh13) {
  const std::size_t f = static_cast<std::size_t>(inter);
  for (std::size_t r = 0; r < rows; ++r)
    backward_row(da + r * f, h13 + 2 * r * f, h13 + (2 * r + 1) * f, f, dh13 + 2 * r * f, dh13 + (2 * r + 1) * f);
}

void forward_float(const float* h13, std::size_t rows, int inter, float* a) {
  forward_rows(h13, rows, inter, a);
}
void forward_double(const double* h13, std::size_t rows, int inter, double* a) {
  forward_rows(h13, rows, inter, a);
}
void backward_float(const float* da, const float* h13, std::size_t rows, int inter, float* dh13) {
  backward_rows(da, h13, rows, inter, dh13);
}
void backward_double(const double* da, const double* h13, std::size_t rows, int inter, double* dh13) {
  backward_rows(da, h13, rows, inter, dh13);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace moescope
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moescope {

HWY_EXPORT(forward_float);
HWY_EXPORT(forward_double);
HWY_EXPORT(backward_float);
HWY_EXPORT(backward_double);

void swiglu_forward(const float* h13, std::size_t rows, int inter, float* a) {
  HWY_DYNAMIC_DISPATCH(forward_float)(h13, rows, inter, a);
}
void swiglu_forward(const double* h13, std::size_t rows, int inter, double* a) {
  HWY_DYNAMIC_DISPATCH(forward_double)(h13, rows, inter, a);
}
void swiglu_backward(const float* da, const float* h13, std::size_t rows, int inter, float* dh13) {
  HWY_DYNAMIC_DISPATCH(backward_float)(da, h13, rows, inter, dh13);
}
void swiglu_backward(const double* da, const double* h13, std::size_t rows, int inter, double* dh13) {
  HWY_DYNAMIC_DISPATCH(backward_double)(da, h13, rows, inter, dh13);
}

}  // namespace moescope
#endif
