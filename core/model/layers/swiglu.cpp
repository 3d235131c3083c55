#include "core/model/layers/swiglu.h"

#include <algorithm>
#include <vector>

#include "core/numerics/kernels/row_math.h"

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

#define MOESCOPE_ROWS(T)                                                                                      \
  void forward_##T(const Matrix<const T>& h13, const Matrix<T>& a) {                                          \
    for (Index r = 0; r < a.rows; ++r) forward_row(h13.row(r), h13.row(r) + a.cols, a.cols, a.row(r));        \
  }                                                                                                           \
  void backward_##T(const Matrix<const T>& da, const Matrix<const T>& h13, const Matrix<T>& dh13) {           \
    for (Index r = 0; r < da.rows; ++r)                                                                       \
      backward_row(da.row(r), h13.row(r), h13.row(r) + da.cols, da.cols, dh13.row(r), dh13.row(r) + da.cols); \
  }
MOESCOPE_ROWS(float)
MOESCOPE_ROWS(double)
#undef MOESCOPE_ROWS

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace moescope
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moescope {

MOESCOPE_EXPORT_KERNEL(forward);
MOESCOPE_EXPORT_KERNEL(backward);

void swiglu_forward(ConstMatrix<float> h13, Matrix<float> a) {
  HWY_DYNAMIC_DISPATCH(forward_float)(h13, a);
}
void swiglu_forward(ConstMatrix<double> h13, Matrix<double> a) {
  HWY_DYNAMIC_DISPATCH(forward_double)(h13, a);
}
void swiglu_backward(ConstMatrix<float> da, ConstMatrix<float> h13, Matrix<float> dh13) {
  HWY_DYNAMIC_DISPATCH(backward_float)(da, h13, dh13);
}
void swiglu_backward(ConstMatrix<double> da, ConstMatrix<double> h13, Matrix<double> dh13) {
  HWY_DYNAMIC_DISPATCH(backward_double)(da, h13, dh13);
}

void clamped_swiglu_forward(ConstMatrix<float> h13, double limit, Matrix<float> a) {
  constexpr float kAlpha = 1.702f;
  const auto clamp_limit = static_cast<float>(limit);
  thread_local std::vector<float> gate;
  gate.resize(a.cols);
  for (Index r = 0; r < a.rows; ++r) {
    const float* h = h13.row(r);
    float* out = a.row(r);
    for (Index i = 0; i < a.cols; ++i) {
      gate[i] = std::min(h[2 * i], clamp_limit);
      out[i] = kAlpha * gate[i];
    }
    sigmoid_row(out, gate.size(), out);
    for (Index i = 0; i < a.cols; ++i)
      out[i] = (std::clamp(h[2 * i + 1], -clamp_limit, clamp_limit) + 1) * (gate[i] * out[i]);
  }
}

}  // namespace moescope
#endif
