// Published claims about training mixtures of experts, tried on a miniature: runs that differ in what the claim is
// about, the figure compared, what was published, and what the difference of the figure should then be.
//
// A claim is a TOML file, assets/claims/NAME.toml (built in) or a user's own file:
//   title, statement, source          texts; `source` names paper or thread
//   steps, seeds                      of every run; pairs of runs of equal seed are compared
//   [runs]                            as in a lesson (assets/lessons/README.md)
//   [[compare]]                       a row of the table:
//     text, published                 texts: what is compared with what, and the published difference
//     run, against                    "B", "A"; the difference is run minus against
//     figure, last                    key of a metric, mean over the last so many steps
//     expect                          "higher", "lower" or "equal"; with "equal" `within`: differences up to it count
//                                     as none
// claim_results.h keeps what came of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/config_check.h"
#include "core/lessons/lesson.h"

namespace moescope {

// What the published difference lets expect of ours: its sign, since a miniature does not have its size.
enum class ClaimExpect : std::uint8_t { higher, lower, equal };

struct ClaimComparison {
  std::string text, published;
  int run = 1, against = 0;  // indices of runs
  Metric metric = Metric::val_loss;
  std::int64_t last = 1;  // steps
  ClaimExpect expect = ClaimExpect::equal;
  double within = 0;  // of `equal`, in units of the metric
};

struct Claim {
  std::string name;  // file name without suffix
  std::string title, statement, source;
  std::int64_t steps = 0;
  int seeds = 0;
  std::vector<RunConfig>
      runs;  // of the first seed; without telemetry that no comparison reads, routers at every 20th step
  std::vector<ClaimComparison> comparisons;
};

struct ParsedClaim {
  Claim claim;
  std::vector<ConfigProblem> problems;  // empty: the claim can be tried
};
ParsedClaim parse_claim(std::string_view toml, std::string_view file_name);

// The built-in claims in the order of the table.
std::vector<std::string> claim_names();
// A built-in claim by name, or a file by its path.
ParsedClaim find_claim(std::string_view name_or_path);
// All built-in claims.
std::vector<Claim> published_claims();

// Identifies what was trained: the steps, and every setting that differs from its default, of each run. Equal for equal
// trainings, whatever the claim's texts are.
std::string settings_digest(const Claim& claim);

}  // namespace moescope
