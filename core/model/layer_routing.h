// How each MoE layer routed the last step. Legend: T tokens, K top_k.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moescope {

template <class T>
class Transformer;

struct LayerRouting {
  int layer = 0;  // among all layers
  int n_experts = 0, top_k = 0;
  std::span<const std::int32_t> ids_TK;
  std::span<const float> margin_T;  // K-th minus (K+1)-th biased score; NaN if no other expert could be chosen
};

// Returns views into the model's last forward pass, valid until the next one.
std::vector<LayerRouting> routing_of(const Transformer<float>& model);

}  // namespace moescope
