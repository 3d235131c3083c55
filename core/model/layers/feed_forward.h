// Feed-forward with a gated unit: y = w2 (silu(w1 h) * w3 h). Used for dense layers, for the shared experts as one wide
// unit, and for each expert of a checkpoint.
//
// Legend: T tokens, D dim, F hidden width.
#pragma once

#include <optional>

#include "core/model/layers/arena.h"
#include "core/model/layers/linear.h"
#include "core/model/layers/parameters.h"
#include "core/model/layers/precision.h"

namespace moescope {

template <class T>
struct FeedForwardActivations {
  Matrix<T> h13;  // [T, 2F]
  Matrix<T> a;    // [T, F]
  void plan(Arena<T>& arena, Index tokens, Index inter);
};

template <class T>
struct FeedForwardLayers {
  const LinearLayer<T>*gate, *up;    // w1 and w3 [F, D]; or both in `gate`, [2F, D], and `up` is nullptr
  const LinearLayer<T>* down;        // w2 [D, F]
  bool bf16_unit = false;            // the unit's output is rounded to BF16
  std::optional<double> clamp = {};  // limit of gpt-oss's unit (swiglu.h); nullopt: the unit is SwiGLU
};

// y_TD = feed_forward(h_TD), added to y if `accumulate`. `a` is overwritten.
template <class T>
void feed_forward_forward(const FeedForwardLayers<T>& layers, ConstMatrix<T> h, FeedForwardActivations<T>& a,
                          Matrix<T> y, bool accumulate);

// Precisions of the product with w1 and w3, stacked, and of the product with w2.
struct FeedForwardPrecision {
  LinearPrecision w13, w2;
};

// y_TD += feed_forward(h_TD) with weights in memory.
template <class T>
void feed_forward_forward(const FeedForwardView<T>& w, ConstMatrix<T> h, FeedForwardActivations<T>& a, Matrix<T> y,
                          const FeedForwardPrecision& precision = {});

template <class T>
struct FeedForwardGradients {
  const FeedForwardView<T>& weights;
  FeedForwardActivations<T>& scratch;  // shaped like the activations; overwritten
  Matrix<T> dh;                        // [T, D]
  bool adds_dh;                        // true: dh is added to; false: it is overwritten
};
// Computes dL/dh and the weights' gradients from dy_TD.
template <class T>
void feed_forward_backward(const FeedForwardView<T>& w, ConstMatrix<T> h, ConstMatrix<T> dy,
                           const FeedForwardActivations<T>& a, const FeedForwardGradients<T>& gradients,
                           const FeedForwardPrecision& precision = {});

}  // namespace moescope
