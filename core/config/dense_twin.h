// Dense twins: models without experts for comparison with a mixture of experts, in two sizes. The gain by experts is
// the difference of their losses.
#pragma once

#include <optional>

#include "core/config/run_config.h"

namespace moescope {

enum class DenseSize {
  active,  // as many weights as a token multiplies, and about as many FLOPs
  total,   // as many weights as the mixture has; a token multiplies them all
};

// Returns `config` with dense feed-forwards in all layers, all of one width, a multiple of 32 features, so that blocks
// of 32 fit. Attention, embedding and head stay. Except for the rounding of the width, the feed-forwards have as many
// weights as those of `config` with everything that belongs to them (experts, gate, shared expert, latent projections).
// They multiply in the experts' format. The caller sets the name: twin_name().
RunConfig dense_twin(const RunConfig& config, DenseSize size);

// Returns the size of `twin`; nullopt if it is neither of the two.
std::optional<DenseSize> dense_size(const RunConfig& config, const RunConfig& twin);

}  // namespace moescope
