// Dense twins: models without experts for comparison with a mixture of experts, in two sizes. The gain by experts is
// the difference between the losses of the mixture and its dense twin.
#pragma once

#include <optional>

#include "core/config/run_config.h"

namespace moescope {

enum class DenseSize {
  active,  // as many weights as the mixture uses for one token, and about as many FLOPs
  total,   // as many weights as the mixture has; every token uses them all
};

// Returns `config` with dense feed-forwards in all layers. They all have the same width, a multiple of 32 features, so
// that blocks of 32 fit. Attention, embedding and head do not change. Except for the rounding of the width, the
// feed-forwards have as many weights as those of `config` have in total, or as one token uses of them. Experts, gate,
// shared experts and latent projections count as feed-forwards. The dense feed-forwards have the recipe of the experts.
// The caller sets the name: twin_name().
RunConfig dense_twin(const RunConfig& config, DenseSize size);

// Returns the size for which dense_twin() returns the settings of `twin`; nullopt if there is none.
std::optional<DenseSize> dense_size(const RunConfig& config, const RunConfig& twin);

}  // namespace moescope
