// Statistics of each expert's weights: their norm, and their SQNR in the run's number format.
#pragma once

#include <vector>

#include "core/frame/frame.h"
#include "core/model/learner.h"

namespace moescope {

// Sets weight_norm_E and weight_sqnr_E of every layer, for w1, w2 and w3 of each expert together, quantized as in the
// forward pass.
void add_expert_weights(const Learner<float>& learner, std::vector<SpecialisationFrame>& layers);

}  // namespace moescope
