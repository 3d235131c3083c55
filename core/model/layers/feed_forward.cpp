#include "core/model/layers/feed_forward.h"

#include "core/model/layers/linear.h"
#include "core/model/layers/swiglu.h"
#include "core/numerics/bf16_rounding.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

constexpr Index kRowsOfTask = 32;  // per task

}  // namespace

template <class T>
void FeedForwardActivations<T>::plan(Arena<T>& arena, Index tokens, Index inter) {
  arena.plan(h13, tokens, 2 * inter);
  arena.plan(a, tokens, inter);
}

template <class T>
void feed_forward_forward(const FeedForwardView<T>& w, ConstMatrix<T> h, FeedForwardActivations<T>& a, Matrix<T> y,
                          const FeedForwardPrecision& precision) {
  linear_forward<T>(h, w.w13, a.h13, false, precision.w13);
  parallel_slices(h.rows, kRowsOfTask, [&](Index first, Index last) {
    const Matrix<T> out = a.a.row_block(first, last - first);
    swiglu_forward(a.h13.row_block(first, last - first), out);
    if (precision.w13.bf16_output) round_to_bf16(out);
  });
  linear_forward<T>(a.a, w.w2, y, true, precision.w2);
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

#define INSTANTIATE(T)                                                                                         \
  template struct FeedForwardActivations<T>;                                                                   \
  template void feed_forward_forward<T>(const FeedForwardView<T>&, ConstMatrix<T>, FeedForwardActivations<T>&, \
                                        Matrix<T>, const FeedForwardPrecision&);                               \
  template void feed_forward_backward<T>(const FeedForwardView<T>&, ConstMatrix<T>, ConstMatrix<T>,            \
                                         const FeedForwardActivations<T>&, const FeedForwardGradients<T>&,     \
                                         const FeedForwardPrecision&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace moescope
