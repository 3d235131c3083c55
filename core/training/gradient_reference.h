// Compares a run's gradients, routing and predictions with those of an FP32 pass with the same weights and batch.
#pragma once

#include <memory>
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
  void run(Learner<float>& learner, const Batch& batch, const std::vector<std::vector<std::int32_t>>* experts);

  RunConfig config_;  // the learner's config in FP32; the model refers to it
  std::unique_ptr<Transformer<float>> model_;
  std::vector<float> saved_gradients_;  // copy of the learner's gradients
};

// Returns the config with every number format of [precision] set to fp32.
RunConfig in_fp32(RunConfig config);

}  // namespace moescope
