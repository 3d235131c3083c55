// Differences between the settings of two runs, and noise twins.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/config/config_field.h"
#include "core/config/run_config.h"

namespace moescope {

// One setting in which two configs differ.
struct ConfigDifference {
  Setting setting;
  std::string a, b;  // values as to_string() writes them
  bool operator==(const ConfigDifference&) const = default;
};
// Returns the differences in the order of config_fields(). Names are not compared, because every run has its own.
std::vector<ConfigDifference> difference(const RunConfig& a, const RunConfig& b);
// True if `b` differs from `a` by chance alone: another seed or perturbation, and otherwise equal settings as far as
// they affect training ([telemetry] and [parallel] do not). Runs in lock-step read the batches of the first run
// whatever their seeds are, so that such twins differ only in their initial weights.
bool is_noise_twin(const RunConfig& a, const RunConfig& b);
// True if both runs start from equal weights except for a perturbation: they have the same seed and the same [model].
bool same_start(const RunConfig& a, const RunConfig& b);
// Returns `config` with the next seed and a name that states it. If the run has initial weights, which do not depend on
// the seed, the twin has the next perturbation instead.
RunConfig noise_twin(const RunConfig& config);
RunConfig perturbed_twin(const RunConfig& config);  // with the next perturbation and a name that states it
std::string valid_name(std::string name);  // with "-" for what no name of a run may have, cut to its greatest length
// Returns a valid name for a run that is compared with `first`: "16B-like+mxfp8_rceil", "nano+top_k-4".
std::string twin_name(const RunConfig& first, const RunConfig& twin);

// Size of a dense twin, a model without experts for comparison with a mixture of experts. The gain by experts is the
// difference between the losses of the mixture and its dense twin.
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
