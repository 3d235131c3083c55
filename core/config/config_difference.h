// In which settings two runs differ, and twins that differ by chance alone.
#pragma once

#include <string>
#include <vector>

#include "core/config/config_field.h"

namespace moescope {

// One setting in which two configs differ.
struct ConfigDifference {
  Setting setting;
  std::string a, b;  // as to_string() writes them
  bool operator==(const ConfigDifference&) const = default;
};
// In the table's order. Names do not count: every run has its own.
std::vector<ConfigDifference> difference(const RunConfig& a, const RunConfig& b);
// Whether `b` shows what chance alone does to `a`: another seed or perturbation, and otherwise the same settings as far
// as they affect training ([telemetry] and [parallel] do not). Runs in lock-step read the batches of the first,
// whatever their seeds: such twins differ only in their initial weights.
bool is_noise_twin(const RunConfig& a, const RunConfig& b);
// Whether both start from the same weights but for a perturbation: one seed, one shape of model.
bool same_start(const RunConfig& a, const RunConfig& b);
RunConfig noise_twin(const RunConfig& config);      // the next seed, and a name that says so
RunConfig perturbed_twin(const RunConfig& config);  // the same with the next perturbation
// A valid name for a run that is compared with `first`: "16B-like+mxfp8_rceil", "nano+top_k-4".
std::string twin_name(const RunConfig& first, const RunConfig& twin);

}  // namespace moescope
