// The gate of the shared experts: y += sigmoid(h w_g) shared(h), one number per token (Qwen3-Next's shared_expert_gate,
// Megatron-LM's moe-shared-expert-gate).
//
// Legend: T tokens, D dim.
#pragma once

#include <cstddef>

#include "core/config/run_config.h"
#include "core/model/layers/arena.h"
#include "core/model/layers/precision.h"

namespace moescope {

// Nothing is planned where the model has no such gate.
template <class T>
struct SharedGateActivations {
  T* y = nullptr;     // [T, D] the shared experts' output before the gate; in the backward pass its gradient
  T* gate = nullptr;  // [T]; in the backward pass the gradient before the sigmoid
  void plan(Arena<T>& arena, const ModelConfig& config, std::size_t tokens);
};

// Fills a.gate from w_D and h_TD, and adds what it lets pass of a.y to y_TD.
template <class T>
void shared_gate_forward(const T* w, const T* h, int tokens, int dim, SharedGateActivations<T>& a, T* y,
                         const LinearPrecision& precision = {});

// From dy_TD: the gradients of a.y and before the sigmoid into `scratch`, dw_D, and dh_TD += the one through the gate.
template <class T>
void shared_gate_backward(const T* w, const T* h, const T* dy, int tokens, int dim, const SharedGateActivations<T>& a,
                          SharedGateActivations<T>& scratch, T* dw, T* dh, const LinearPrecision& precision = {});

}  // namespace moescope
