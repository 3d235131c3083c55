// SwiGLU feed-forward: y += w2 (silu(w1 h) * w3 h). The dense layers and, as one wide unit, the shared experts.
//
// Legend: T tokens, D dim, F hidden width.
#pragma once

#include "core/model/layers/arena.h"
#include "core/model/layers/parameters.h"
#include "core/model/layers/precision.h"

namespace moescope {

template <class T>
struct FeedForwardActivations {
  T* h13;  // [T, 2F]
  T* a;    // [T, F]
  void plan(Arena<T>& arena, std::size_t tokens, int inter);
};

// How the products with w1 and w3, stacked, and with w2 quantize their operands.
struct FeedForwardPrecision {
  LinearPrecision w13, w2;
};

// y_TD += feed_forward(h_TD).
template <class T>
void feed_forward_forward(const FeedForwardView<T>& w, const T* h, int tokens, int dim, int inter,
                          FeedForwardActivations<T>& a, T* y, const FeedForwardPrecision& precision = {});

// dh_TD = (or +=) dL/dh from dy_TD; `scratch` has the shape of the activations and is overwritten.
template <class T>
void feed_forward_backward(const FeedForwardView<T>& w, const FeedForwardView<T>& g, const T* h, const T* dy,
                           int tokens, int dim, int inter, const FeedForwardActivations<T>& a,
                           FeedForwardActivations<T>& scratch, T* dh, bool accumulate,
                           const FeedForwardPrecision& precision = {});

}  // namespace moescope
