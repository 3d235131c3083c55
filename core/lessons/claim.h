// Published claims about training mixtures of experts, tested on a small model: runs that differ in the subject of the
// claim, the figure that is compared, the published difference, and the expected sign of the difference. A claim is a
// TOML file, assets/claims/NAME.toml (built in) or a user's own file (docs/claims.md). claim_results.h holds their
// results.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/config_check.h"
#include "core/lessons/lesson.h"

namespace moescope {

// Expected sign of the difference, or no difference. The published size is not expected, because the model is small.
enum class ClaimExpect : std::uint8_t { higher, lower, equal };

struct ClaimComparison {
  std::string text, published;
  int run = 1, against = 0;  // indices of runs
  Metric metric = Metric::val_loss;
  std::int64_t last = 1;  // number of last steps over which the metric is averaged
  ClaimExpect expect = ClaimExpect::equal;
  double within = 0;  // for `equal`: largest difference that counts as none, in units of the metric
};

struct Claim {
  std::string name;  // file name without suffix
  std::string title, statement, source;
  std::int64_t steps = 0;
  int seeds = 0;
  // Runs of the first seed; without telemetry that no comparison reads, and with routers at every 20th step.
  std::vector<RunConfig> runs;
  std::vector<ClaimComparison> comparisons;
};

struct ParsedClaim {
  Claim claim;
  std::vector<ConfigProblem> problems;  // empty: the claim can be tested
};
ParsedClaim parse_claim(std::string_view toml, std::string_view file_name);

// Returns the names of the built-in claims in the order of the table.
std::vector<std::string> claim_names();
// Reads a built-in claim by name, or a file by its path.
ParsedClaim find_claim(std::string_view name_or_path);

// Returns a hash of the steps and of the settings of each run that differ from their defaults, except telemetry,
// parallelism and `portable`. Equal trainings have equal hashes, regardless of the claim's texts.
std::string settings_digest(const Claim& claim);

}  // namespace moescope
