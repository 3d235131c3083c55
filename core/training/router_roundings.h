// Effects of BF16 in the router: compares the experts that the router of a layer chooses if one of its numbers alone is
// rounded with those that it chooses without rounding, for the same inputs, weights and biases.
//
// Legend: T tokens, E experts, D dim.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/frame/frame.h"
#include "core/model/learner.h"

namespace moescope {

// The router of one layer, apart from its model.
struct SingleRouter {
  const RunConfig& config;  // its [precision] is ignored
  int layer = 0;
  BatchPart part;
  Matrix<const float> h;     // [T, D]
  Matrix<const float> gate;  // [E, D]
  std::span<const float> expert_bias;
  RoutingInputs limits = {};
};

// Returns the rows for none, operands, gate_output and bias.
std::vector<RouterRoundingFrame> router_roundings(const SingleRouter& router);

// Returns all rows of the MoE layers whose router chooses the experts. The inputs are those of `reference`, an FP32
// pass with the learner's weights over the same batch. Layers that choose by a table have no rows, and with forced
// balance or replayed routing no layer has any. A row for counts exists only if expert_bias follows the counts.
std::vector<RouterRoundingFrame> router_roundings(const Learner<float>& learner, const Transformer<float>& reference);

}  // namespace moescope
