// Latent experts: routed experts that work on rows of Dl < D values (Megatron-LM's moe_latent_size: Nemotron 3 Super,
// Kimi K3).
//
//   rows = h W_down^T -> dispatch -> experts -> combine = mixed;  y += (norm(mixed) or mixed) W_up^T
// The projections run once per token, not once per copy, and every rank has their whole weights; the router and the
// shared experts read all of h. Legend: T tokens, D dim, Dl latent_dim.
#pragma once

#include "core/config/run_config.h"
#include "core/model/layers/arena.h"
#include "core/model/layers/parameters.h"
#include "core/model/layers/precision.h"

namespace moescope {

// Memory is only allocated with latent_dim, that of `normed` and `inv` only with latent_norm.
template <class T>
struct LatentActivations {
  Matrix<T> rows, mixed;  // [T, Dl]
  Matrix<T> normed;       // [T, Dl]
  T* inv = nullptr;       // [T]
  void plan(Arena<T>& arena, const ModelConfig& config, Index tokens);
};

template <class T>
struct LatentWorkspace {
  Matrix<T> drows, dmixed, dnormed;  // [T, Dl]
  Matrix<T> norm_partial;            // see NormGradient
  void plan(Arena<T>& arena, const ModelConfig& config, Index tokens);
};

// Computes a.rows from h_TD.
template <class T>
void latent_down(const LayerView<T>& w, ConstMatrix<T> h, LatentActivations<T>& a,
                 const LinearPrecision& precision = {});
// Adds the projection of a.mixed to y_TD.
template <class T>
void latent_up(const ModelConfig& config, const LayerView<T>& w, LatentActivations<T>& a, Matrix<T> y,
               const LinearPrecision& precision = {});

// Computes ws.dmixed and the weights' gradients from dy_TD.
template <class T>
void latent_up_backward(const ModelConfig& config, const LayerView<T>& w, const LayerView<T>& g, ConstMatrix<T> dy,
                        const LatentActivations<T>& a, LatentWorkspace<T>& ws, const LinearPrecision& precision = {});
// Computes dh_TD and the weights' gradient from ws.drows.
template <class T>
void latent_down_backward(const LayerView<T>& w, const LayerView<T>& g, ConstMatrix<T> h, const LatentWorkspace<T>& ws,
                          Matrix<T> dh, const LinearPrecision& precision = {});

}  // namespace moescope
