// Statistics of each expert's weights: their norm, their SQNR in the run's number format, and what a step does to them.
#pragma once

#include <cstddef>
#include <vector>

#include "core/frame/frame.h"
#include "core/model/learner.h"

namespace moescope {

// Sets weight_norm_E and weight_sqnr_E of every layer, for w1, w2 and w3 of each expert together, quantized as in the
// forward pass.
void add_expert_weights(const Learner<float>& learner, std::vector<SpecialisationFrame>& layers);

// Sum of the squares of `values` minus `less` (nullptr: of `values`).
double squares_of(const float* values, const float* less, std::size_t count);

// What one update does to the experts' weights. Made before it; with `wanted` it keeps a copy of them. Over ranks, of
// which each has its own experts' alone, there is nothing.
class ExpertSteps {
 public:
  ExpertSteps(const Learner<float>& learner, bool wanted);
  // After the update: fills gradient_norm_E and update_norm_E of every layer.
  void add(const Learner<float>& learner, std::vector<SpecialisationFrame>& layers) const;

 private:
  std::vector<std::vector<float>> before_;  // by tensor of experts, as Parameters::tensors() has them
};

}  // namespace moescope
