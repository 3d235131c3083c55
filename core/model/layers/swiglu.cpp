#include "core/model/layers/swiglu.h"

#include "core/numerics/kernels/lanes.h"
#include "core/numerics/kernels/simd.h"

namespace moescope {
namespace {

template <class T>
MOESCOPE_INLINE Lanes<T> sigmoid(Lanes<T> x) {
  return T{1} / (T{1} + exp_lanes(-x));
}

template <class T>
MOESCOPE_INLINE void forward_row(const T* h1, const T* h3, int inter, T* a) {
  int i = 0;
  for (; i + kLanes<T> <= inter; i += kLanes<T>) {
    const Lanes<T> x = load(h1 + i);
    store<T>(a + i, x * sigmoid<T>(x) * load(h3 + i));
  }
  if (const int rest = inter - i; rest > 0) {
    const Lanes<T> x = load_first(h1 + i, rest);
    store_first<T>(a + i, x * sigmoid<T>(x) * load_first(h3 + i, rest), rest);
  }
}

template <class T>
MOESCOPE_INLINE void backward_row(const T* da, const T* h1, const T* h3, int inter, T* dh1, T* dh3) {
  int i = 0;
  for (; i + kLanes<T> <= inter; i += kLanes<T>) {
    const Lanes<T> x = load(h1 + i), s = sigmoid<T>(x), d = load(da + i);
    store<T>(dh1 + i, d * load(h3 + i) * s * (T{1} + x * (T{1} - s)));
    store<T>(dh3 + i, d * x * s);
  }
  if (const int rest = inter - i; rest > 0) {
    const Lanes<T> x = load_first(h1 + i, rest), s = sigmoid<T>(x), d = load_first(da + i, rest);
    store_first<T>(dh1 + i, d * load_first(h3 + i, rest) * s * (T{1} + x * (T{1} - s)), rest);
    store_first<T>(dh3 + i, d * x * s, rest);
  }
}

template <class T>
MOESCOPE_INLINE void forward_rows(const T* h13, std::size_t rows, int inter, T* a) {
  const std::size_t f = static_cast<std::size_t>(inter);
  for (std::size_t r = 0; r < rows; ++r) forward_row(h13 + 2 * r * f, h13 + (2 * r + 1) * f, inter, a + r * f);
}

template <class T>
MOESCOPE_INLINE void backward_rows(const T* da, const T* h13, std::size_t rows, int inter, T* dh13) {
  const std::size_t f = static_cast<std::size_t>(inter);
  for (std::size_t r = 0; r < rows; ++r)
    backward_row(da + r * f, h13 + 2 * r * f, h13 + (2 * r + 1) * f, inter, dh13 + 2 * r * f, dh13 + (2 * r + 1) * f);
}

}  // namespace

MOESCOPE_SIMD void swiglu_forward(const float* h13, std::size_t rows, int inter, float* a) {
  forward_rows(h13, rows, inter, a);
}
MOESCOPE_SIMD void swiglu_forward(const double* h13, std::size_t rows, int inter, double* a) {
  forward_rows(h13, rows, inter, a);
}
MOESCOPE_SIMD void swiglu_backward(const float* da, const float* h13, std::size_t rows, int inter, float* dh13) {
  backward_rows(da, h13, rows, inter, dh13);
}
MOESCOPE_SIMD void swiglu_backward(const double* da, const double* h13, std::size_t rows, int inter, double* dh13) {
  backward_rows(da, h13, rows, inter, dh13);
}

}  // namespace moescope
