// Where BF16 enters the router: what the router of a layer chooses if one of its numbers alone is rounded, with the
// same inputs, weights and biases.
//
// Legend: T tokens, E experts, D dim.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/frame/frame.h"
#include "core/model/learner.h"

namespace moescope {

// The router of one layer by itself.
struct RouterAlone {
  const RunConfig& config;  // of which [precision] does not count
  int layer = 0;
  BatchPart part;
  Matrix<const float> h;     // [T, D]
  Matrix<const float> gate;  // [E, D]
  std::span<const float> expert_bias;
  RoutingLimits limits = {};
};

// Rows for none, operands, gate_output and bias.
std::vector<RouterRoundingFrame> router_roundings(const RouterAlone& router);

// All rows of all MoE layers in which a router chooses, with the inputs of `reference`, an FP32 pass of the learner's
// weights over the same batch. Layers that choose by a table, forced balance and replayed routing have none; counts
// only where expert_bias follows them.
std::vector<RouterRoundingFrame> router_roundings(const Learner<float>& learner, const Transformer<float>& reference);

}  // namespace moescope
