// Differences between the settings of two runs, and noise twins.
#pragma once

#include <string>
#include <vector>

#include "core/config/config_field.h"

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
// Returns a valid name for a run that is compared with `first`: "16B-like+mxfp8_rceil", "nano+top_k-4".
std::string twin_name(const RunConfig& first, const RunConfig& twin);

}  // namespace moescope
