// How far a run's gradients and routing are from those in FP32 with the same weights and batch.
#pragma once

#include <memory>
#include <vector>

#include "core/frame/frame.h"
#include "core/model/learner.h"

namespace moescope {

struct Fp32Comparison {
  std::vector<GradientFrame> gradients;
  std::vector<FlipFrame> flips;
};

class GradientReference {
 public:
  // Call after forward and backward of `learner` on `batch`; leaves it unchanged to the bit. Runs an extra forward and
  // backward pass in a second set of activations, which stays allocated for the lifetime of this object.
  Fp32Comparison compare(Learner<float>& learner, const Batch& batch);

 private:
  RunConfig config_;  // the learner's in FP32; the model refers to it
  std::unique_ptr<Transformer<float>> model_;
  std::vector<float> kept_;  // the learner's gradients meanwhile
};

// Every number format of [precision] set to fp32.
RunConfig in_fp32(RunConfig config);

}  // namespace moescope
