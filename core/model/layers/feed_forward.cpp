#include "core/model/layers/feed_forward.h"

#include "core/model/layers/linear.h"
#include "core/model/layers/swiglu.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

constexpr std::size_t kSliceRows = 32;

}  // namespace

template <class T>
void FeedForwardActivations<T>::plan(Arena<T>& arena, std::size_t tokens, int inter) {
  arena.plan(h13, tokens * static_cast<std::size_t>(2 * inter));
  arena.plan(a, tokens * static_cast<std::size_t>(inter));
}

template <class T>
void feed_forward_forward(const FeedForwardView<T>& w, const T* h, int tokens, int dim, int inter,
                          FeedForwardActivations<T>& a, T* y, const FeedForwardPrecision& precision) {
  const std::size_t f = static_cast<std::size_t>(inter);
  linear_forward(h, tokens, dim, w.w13, 2 * inter, a.h13, false, precision.w13);
  parallel_slices(static_cast<std::size_t>(tokens), kSliceRows, [&](std::size_t first, std::size_t last) {
    swiglu_forward(a.h13 + first * 2 * f, last - first, inter, a.a + first * f);
  });
  linear_forward(a.a, tokens, inter, w.w2, dim, y, true, precision.w2);
}

template <class T>
void feed_forward_backward(const FeedForwardView<T>& w, const FeedForwardView<T>& g, const T* h, const T* dy,
                           int tokens, int dim, int inter, const FeedForwardActivations<T>& a,
                           FeedForwardActivations<T>& scratch, T* dh, bool accumulate,
                           const FeedForwardPrecision& precision) {
  const std::size_t f = static_cast<std::size_t>(inter);
  linear_backward(dy, tokens, dim, a.a, w.w2, inter, g.w2, scratch.a, false, precision.w2);
  parallel_slices(static_cast<std::size_t>(tokens), kSliceRows, [&](std::size_t first, std::size_t last) {
    swiglu_backward(scratch.a + first * f, a.h13 + first * 2 * f, last - first, inter, scratch.h13 + first * 2 * f);
  });
  linear_backward(scratch.h13, tokens, 2 * inter, h, w.w13, dim, g.w13, dh, accumulate, precision.w13);
}

#define INSTANTIATE(T)                                                                                                \
  template struct FeedForwardActivations<T>;                                                                          \
  template void feed_forward_forward<T>(const FeedForwardView<T>&, const T*, int, int, int,                           \
                                        FeedForwardActivations<T>&, T*, const FeedForwardPrecision&);                 \
  template void feed_forward_backward<T>(const FeedForwardView<T>&, const FeedForwardView<T>&, const T*, const T*,    \
                                         int, int, int, const FeedForwardActivations<T>&, FeedForwardActivations<T>&, \
                                         T*, bool, const FeedForwardPrecision&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace moescope
