// The gate of the shared experts: y += sigmoid(h w_g) shared(h), one number per token (Qwen3-Next's shared_expert_gate,
// Megatron-LM's moe-shared-expert-gate).
//
// Legend: T tokens, D dim.
#pragma once

#include "core/config/run_config.h"
#include "core/model/layers/arena.h"
#include "core/model/layers/precision.h"

namespace moescope {

// Nothing is planned where the model has no such gate.
template <class T>
struct SharedGateActivations {
  Matrix<T> y;     // [T, D] the shared experts' output before the gate; in the backward pass its gradient
  Matrix<T> gate;  // [T, 1]; in the backward pass the gradient before the sigmoid
  void plan(Arena<T>& arena, const ModelConfig& config, Index tokens);
};

// Fills a.gate from w_1D and h_TD, and adds what it lets pass of a.y to y_TD.
template <class T>
void shared_gate_forward(ConstMatrix<T> w, ConstMatrix<T> h, SharedGateActivations<T>& a, Matrix<T> y,
                         const LinearPrecision& precision = {});

template <class T>
struct SharedGateGradients {
  SharedGateActivations<T>& of;  // a.y and what is before the sigmoid
  Matrix<T> dw;                  // [1, D]
  Matrix<T> dh;                  // [T, D], to which the one through the gate is added
};
// All of them from dy_TD.
template <class T>
void shared_gate_backward(ConstMatrix<T> w, ConstMatrix<T> h, ConstMatrix<T> dy, const SharedGateActivations<T>& a,
                          const SharedGateGradients<T>& gradients, const LinearPrecision& precision = {});

}  // namespace moescope
