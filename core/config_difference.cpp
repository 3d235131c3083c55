// In which settings two runs differ.
#include "core/run_config.h"

namespace moescope {

std::vector<ConfigDifference> difference(const RunConfig& a, const RunConfig& b) {
  std::vector<ConfigDifference> differences;
  for (const ConfigField& field : config_fields()) {
    const ConfigValue of_a = field.get(a), of_b = field.get(b);
    if (field.key == "name" || of_a == of_b) continue;
    differences.push_back({field.key, field.label, to_string(of_a), to_string(of_b)});
  }
  return differences;
}

bool is_noise_twin(const RunConfig& a, const RunConfig& b) {
  for (const ConfigDifference& found : difference(a, b)) {
    const bool observes = found.key.starts_with("telemetry.") || found.key.starts_with("parallel.");
    if (found.key != "seed" && !observes) return false;
  }
  return a.seed != b.seed;
}

}  // namespace moescope
