// Statistics of each expert's weights: their norm, their SQNR in the run's number format, and the norms of their
// gradient and of their change in a step.
#pragma once

#include <span>
#include <vector>

#include "core/frame/frame.h"
#include "core/model/learner.h"

namespace moescope {

// Sets weight_norm_E and weight_sqnr_E of every layer, for w1, w2 and w3 of each expert together, quantized as in the
// forward pass.
void add_expert_weights(const Learner<float>& learner, std::vector<SpecialisationFrame>& layers);

// Returns the sum of the squares of values[i] - less[i], or of values[i] if `less` is empty.
double squares_of(std::span<const float> values, std::span<const float> less = {});

// Measures the gradients of the experts' weights and the change of the weights by one update. Construct it before the
// update; if `enabled`, it copies the weights. With ranks it does nothing, because each rank has the weights of its own
// experts only.
class ExpertSteps {
 public:
  ExpertSteps(const Learner<float>& learner, bool enabled);
  // Call after the update. Sets gradient_norm_E and update_norm_E of every layer.
  void add(const Learner<float>& learner, std::vector<SpecialisationFrame>& layers) const;

 private:
  std::vector<std::vector<float>> before_;  // tensors of experts in the order of Parameters::tensors()
};

}  // namespace moescope
