// The gate of the shared experts: y += sigmoid(h w_g) shared(h), one number per token (Qwen3-Next's shared_expert_gate,
// Megatron-LM's moe-shared-expert-gate).
//
// Legend: T tokens, D dim.
#pragma once

#include "core/config/run_config.h"
#include "core/model/layers/arena.h"
#include "core/model/layers/precision.h"

namespace moescope {

// Memory is only allocated if the model has such a gate.
template <class T>
struct SharedGateActivations {
  Matrix<T> y;     // [T, D] output of the shared experts before the gate; in the backward pass its gradient
  Matrix<T> gate;  // [T, 1]; in the backward pass the gradient before the sigmoid
  void plan(Arena<T>& arena, const ModelConfig& config, Index tokens);
};

// Computes a.gate from w_1D and h_TD, and adds the gated a.y to y_TD.
template <class T>
void shared_gate_forward(ConstMatrix<T> w, ConstMatrix<T> h, SharedGateActivations<T>& a, Matrix<T> y,
                         const LinearPrecision& precision = {});

template <class T>
struct SharedGateGradients {
  SharedGateActivations<T>& of;  // gradients of a.y and of the gate before the sigmoid
  Matrix<T> dw;                  // [1, D]
  Matrix<T> dh;                  // [T, D], to which the gradient through the gate is added
};
// Computes these gradients from dy_TD.
template <class T>
void shared_gate_backward(ConstMatrix<T> w, ConstMatrix<T> h, ConstMatrix<T> dy, const SharedGateActivations<T>& a,
                          const SharedGateGradients<T>& gradients, const LinearPrecision& precision = {});

}  // namespace moescope
