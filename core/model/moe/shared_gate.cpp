#include "core/model/moe/shared_gate.h"

#include "core/model/layers/linear.h"
#include "core/numerics/threads.h"
#include "core/numerics/row_math.h"
#include "core/numerics/size.h"

namespace moescope {
namespace {

constexpr std::size_t kGatedTokens = 64;

}  // namespace

template <class T>
void SharedGateActivations<T>::plan(Arena<T>& arena, const ModelConfig& config, std::size_t tokens) {
  const std::size_t gated = config.shared_expert_gate ? tokens : 0;
  arena.plan(y, gated * size(config.dim));
  arena.plan(gate, gated);
}

template <class T>
void shared_gate_forward(const T* w, const T* h, int tokens, int dim, SharedGateActivations<T>& a, T* y,
                         const LinearPrecision& precision) {
  linear_forward(h, tokens, dim, w, 1, a.gate, false, precision);
  parallel_slices(size(tokens), kGatedTokens, [&](std::size_t first, std::size_t last) {
    sigmoid_row(a.gate + first, last - first, a.gate + first);
    for (std::size_t t = first; t < last; ++t) add_scaled(a.gate[t], a.y + t * size(dim), size(dim), y + t * size(dim));
  });
}

template <class T>
void shared_gate_backward(const T* w, const T* h, const T* dy, int tokens, int dim, const SharedGateActivations<T>& a,
                          SharedGateActivations<T>& scratch, T* dw, T* dh, const LinearPrecision& precision) {
  const std::size_t d = size(dim);
  parallel_slices(size(tokens), kGatedTokens, [&](std::size_t first, std::size_t last) {
    for (std::size_t t = first; t < last; ++t) {
      const T gate = a.gate[t];
      const T* in = dy + t * d;
      T* __restrict out = scratch.y + t * d;
      for (std::size_t i = 0; i < d; ++i) out[i] = gate * in[i];
      scratch.gate[t] = dot(in, a.y + t * d, d) * gate * (T{1} - gate);
    }
  });
  linear_backward(scratch.gate, tokens, 1, h, w, dim, dw, dh, true, precision);
}

#define INSTANTIATE(T)                                                                                           \
  template struct SharedGateActivations<T>;                                                                      \
  template void shared_gate_forward<T>(const T*, const T*, int, int, SharedGateActivations<T>&, T*,              \
                                       const LinearPrecision&);                                                  \
  template void shared_gate_backward<T>(const T*, const T*, const T*, int, int, const SharedGateActivations<T>&, \
                                        SharedGateActivations<T>&, T*, T*, const LinearPrecision&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace moescope
