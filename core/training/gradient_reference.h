// Compares a run's gradients, routing and predictions with those of an FP32 pass with the same weights and batch.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/frame/frame.h"
#include "core/model/learner.h"

namespace moescope {

class GradientReference {
 public:
  // Call after forward and backward of `learner` on `batch`; leaves the learner unchanged to the bit. Sets gradients,
  // rounding_flips, router_roundings and the figures fp32_* of the frame. Runs another forward and backward pass in a
  // second set of activations, which stays allocated for the lifetime of this object. Runs both passes once more with
  // the learner's experts if FP32 chooses other experts for any token.
  void compare(Learner<float>& learner, const Batch& batch, TelemetryFrame& frame);

 private:
  void run(Learner<float>& learner, const Batch& batch, ReplayedExperts experts);

  RunConfig config_;  // the learner's config in FP32; the model refers to it
  std::unique_ptr<Transformer<float>> model_;
  std::vector<float> saved_gradients_;  // copy of the learner's gradients
};

// Returns the config with every number format of [precision] set to fp32.
RunConfig in_fp32(RunConfig config);

// Effects of BF16 in the router: compares the experts that the router of a layer chooses if one of its numbers alone is
// rounded with those that it chooses without rounding, for the same inputs, weights and biases.
//
// Legend: T tokens, E experts, D dim.
// The router of one layer, apart from its model.
struct SingleRouter {
  const RunConfig& config;  // its [precision] is ignored
  int layer = 0;
  BatchPart part;
  Matrix<const float> h;               // [T, D]
  Matrix<const float> gate;            // [E, D]
  std::span<const float> expert_bias;  // [E]
  RoutingInputs limits = {};
};

// Returns the rows for none, operands, gate_output and bias.
std::vector<RouterRoundingFrame> router_roundings(const SingleRouter& router);

// Returns all rows of the MoE layers whose router chooses the experts. The inputs are those of `reference`, an FP32
// pass with the learner's weights over the same batch. Layers that choose by a table have no rows, and with forced
// balance or replayed routing no layer has any. A row for counts exists only if expert_bias follows the counts.
std::vector<RouterRoundingFrame> router_roundings(const Learner<float>& learner, const Transformer<float>& reference);

}  // namespace moescope
