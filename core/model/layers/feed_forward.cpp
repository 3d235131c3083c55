#include "core/model/layers/feed_forward.h"

#include <type_traits>

#include "core/model/layers/swiglu.h"
#include "core/numerics/bf16_rounding.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

constexpr Index kRowsOfTask = 32;

template <class T>
void unit_forward(const FeedForwardLayers<T>& layers, const Matrix<T>& h13, const Matrix<T>& a) {
  if constexpr (std::is_same_v<T, float>)
    if (layers.clamp) return clamped_swiglu_forward(h13, *layers.clamp, a);
  swiglu_forward(h13, a);
}

}  // namespace

template <class T>
void FeedForwardActivations<T>::plan(Arena<T>& arena, Index tokens, Index inter) {
  arena.plan(h13, tokens, 2 * inter);
  arena.plan(a, tokens, inter);
}

template <class T>
void feed_forward_forward(const FeedForwardLayers<T>& layers, ConstMatrix<T> h, FeedForwardActivations<T>& a,
                          Matrix<T> y, bool accumulate) {
  if (layers.up) {
    layers.gate->forward(h, a.h13.col_block(0, a.a.cols), false);
    layers.up->forward(h, a.h13.col_block(a.a.cols, a.a.cols), false);
  } else {
    layers.gate->forward(h, a.h13, false);
  }
  parallel_slices(h.rows, kRowsOfTask, [&](Index first, Index last) {
    const Matrix<T> in = a.h13.row_block(first, last - first), out = a.a.row_block(first, last - first);
    unit_forward(layers, in, out);
    if (layers.bf16_unit) round_to_bf16(out);
  });
  layers.down->forward(a.a, y, accumulate);
}

template <class T>
void feed_forward_forward(const FeedForwardView<T>& w, ConstMatrix<T> h, FeedForwardActivations<T>& a, Matrix<T> y,
                          const FeedForwardPrecision& precision) {
  const MasterLinear<T> w13(w.w13, precision.w13), w2(w.w2, precision.w2);
  feed_forward_forward<T>({&w13, nullptr, &w2, precision.w13.bf16_output}, h, a, y, true);
}

template <class T>
void feed_forward_backward(const FeedForwardView<T>& w, ConstMatrix<T> h, ConstMatrix<T> dy,
                           const FeedForwardActivations<T>& a, const FeedForwardGradients<T>& gradients,
                           const FeedForwardPrecision& precision) {
  const FeedForwardActivations<T>& d = gradients.scratch;
  linear_backward<T>(dy, a.a, w.w2, gradients.weights.w2, d.a, false, precision.w2);
  parallel_slices(h.rows, kRowsOfTask, [&](Index first, Index last) {
    const Index rows = last - first;
    swiglu_backward(d.a.row_block(first, rows), a.h13.row_block(first, rows), d.h13.row_block(first, rows));
    if (precision.w13.bf16_output) round_to_bf16(d.h13.row_block(first, rows));
  });
  linear_backward<T>(d.h13, h, w.w13, gradients.weights.w13, gradients.dh, gradients.adds_dh, precision.w13);
}

#define INSTANTIATE(T)                                                                                           \
  template struct FeedForwardActivations<T>;                                                                     \
  template void feed_forward_forward<T>(const FeedForwardLayers<T>&, ConstMatrix<T>, FeedForwardActivations<T>&, \
                                        Matrix<T>, bool);                                                        \
  template void feed_forward_forward<T>(const FeedForwardView<T>&, ConstMatrix<T>, FeedForwardActivations<T>&,   \
                                        Matrix<T>, const FeedForwardPrecision&);                                 \
  template void feed_forward_backward<T>(const FeedForwardView<T>&, ConstMatrix<T>, ConstMatrix<T>,              \
                                         const FeedForwardActivations<T>&, const FeedForwardGradients<T>&,       \
                                         const FeedForwardPrecision&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace moescope
