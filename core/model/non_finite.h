// Where the first NaN or infinity of a step arose: in the order of its computation, forward and then backward.
#pragma once

#include <optional>

#include "core/model/learner.h"
#include "core/model/non_finite_place.h"

namespace moescope {

// Of the learner's last step, whose activations and gradients it still holds; nothing: all of them are finite, as where
// the first weights that are not came from the update itself.
std::optional<NonFinitePlace> first_non_finite(const Learner<float>& learner);

}  // namespace moescope
