// The same model without experts: what a mixture of experts is worth is its loss beside that of a dense model of equal
// size, and there are two sizes to be equal to.
#pragma once

#include <optional>
#include <string_view>

#include "core/config/run_config.h"

namespace moescope {

enum class DenseSize {
  active,  // as many weights as a token multiplies, and with them about as many FLOPs
  total,   // as many weights as there are; a token multiplies them all
};

std::string_view dense_size_name(DenseSize size);  // "active", "total"

// `config` with dense feed-forwards in all layers, all of one width: a multiple of 32 features, so that blocks of 32
// fit. Attention, embedding and head stay; the feed-forwards have, but for that rounding, as many weights as those of
// `config` with all that belongs to them (experts, gate, shared expert, latent projections). They multiply in the
// experts' format. Its name is to be given: twin_name().
RunConfig dense_twin(const RunConfig& config, DenseSize size);

// Which of the two `twin` is; nothing: neither.
std::optional<DenseSize> dense_size(const RunConfig& config, const RunConfig& twin);

}  // namespace moescope
