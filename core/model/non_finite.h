// Finds the place where the first NaN or infinity of a step arose, in the order of computation: forward, then backward.
#pragma once

#include <optional>

#include "core/model/learner.h"
#include "core/model/non_finite_place.h"

namespace moescope {

// Searches the activations and gradients of the learner's last step. Returns nullopt if all of them are finite, for
// example if the update made the first weight that is not finite.
std::optional<NonFinitePlace> first_non_finite(const Learner<float>& learner);

}  // namespace moescope
