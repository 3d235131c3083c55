#include "core/model/moe/shared_gate.h"

#include "core/model/layers/linear.h"
#include "core/numerics/kernels/row_math.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

constexpr Index kGatedTokens = 64;

}  // namespace

template <class T>
void SharedGateActivations<T>::plan(Arena<T>& arena, const ModelConfig& config, Index tokens) {
  const Index gated = config.shared_expert_gate ? tokens : 0;
  arena.plan(y, gated, config.dim);
  arena.plan(gate, gated, 1);
}

template <class T>
void shared_gate_forward(ConstMatrix<T> w, ConstMatrix<T> h, SharedGateActivations<T>& a, Matrix<T> y,
                         const LinearPrecision& precision) {
  linear_forward<T>(h, w, a.gate, false, precision);
  parallel_slices(h.rows, kGatedTokens, [&](Index first, Index last) {
    sigmoid_row(a.gate.row(first), last - first, a.gate.row(first));
    for (Index t = first; t < last; ++t) add_scaled(*a.gate.row(t), a.y.row(t), y.cols, y.row(t));
  });
}

template <class T>
void shared_gate_backward(ConstMatrix<T> w, ConstMatrix<T> h, ConstMatrix<T> dy, const SharedGateActivations<T>& a,
                          const SharedGateGradients<T>& gradients, const LinearPrecision& precision) {
  const SharedGateActivations<T>& d = gradients.of;
  parallel_slices(h.rows, kGatedTokens, [&](Index first, Index last) {
    for (Index t = first; t < last; ++t) {
      const T gate = *a.gate.row(t);
      const T* in = dy.row(t);
      T* __restrict out = d.y.row(t);
      for (Index i = 0; i < dy.cols; ++i) out[i] = gate * in[i];
      *d.gate.row(t) = dot(in, a.y.row(t), dy.cols) * gate * (T{1} - gate);
    }
  });
  linear_backward<T>(d.gate, h, w, gradients.dw, gradients.dh, true, precision);
}

#define INSTANTIATE(T)                                                                                       \
  template struct SharedGateActivations<T>;                                                                  \
  template void shared_gate_forward<T>(ConstMatrix<T>, ConstMatrix<T>, SharedGateActivations<T>&, Matrix<T>, \
                                       const LinearPrecision&);                                              \
  template void shared_gate_backward<T>(ConstMatrix<T>, ConstMatrix<T>, ConstMatrix<T>,                      \
                                        const SharedGateActivations<T>&, const SharedGateGradients<T>&,      \
                                        const LinearPrecision&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace moescope
