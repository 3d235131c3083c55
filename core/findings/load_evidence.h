// The rule of evidence of all watches of a load. Evidence is counted in loads, that is, records with tokens_per_expert,
// and in the tokens that an expert should have had in them.
//
// A watch states for how many training steps a condition has to last, because a router may correct itself in fewer.
// A log of every step needs as many loads; a log of every n-th step needs as many as it has in these steps, and never
// fewer than kMinLoads. A log that consists of one total of many tokens, or of a few and no loss, is no log of steps:
// it is judged by its totals, which show neither when a fault began nor whether it lasts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "core/frame/frame.h"
#include "core/recording/history/history.h"

namespace moescope {

// A lasting condition has been seen in at least this many loads, however far apart they are.
inline constexpr std::int64_t kMinLoads = 10;
// Number of tokens of an even share that an expert must have missed; the probability that it misses them by chance is
// exp(-50).
inline constexpr double kExpected = 50;
// A total is evidence if it has at least this many tokens: about as many as the newest loads of a training that are
// judged together.
inline constexpr double kTokensOfTotal = 50'000;

// Successive loads of a log.
struct LoadSpan {
  std::int64_t loads = 0;
  std::int64_t first = -1, last = -1;  // steps of the first and of the last load

  // Mean number of steps from a load to the next one, at least 1.
  double interval() const { return loads > 1 ? std::max(1.0, (last - first) / static_cast<double>(loads - 1)) : 1; }
  std::int64_t needed(std::int64_t steps) const;  // number of loads for a condition that has to last for `steps` steps
  bool lasts(std::int64_t steps) const { return loads >= needed(steps); }
};
// Returns "350 steps", "12 loads, one every 50 steps", "12 loads, about one every 37 steps" or "1 load".
std::string loads_text(const LoadSpan& span);
std::string window_text(const LoadSpan& span);  // "steps 951 to 1,000", or with loads: "steps 1 to 600 (12 loads, ...)"
std::string interval_text(const LoadSpan& span);  // "one every 50 steps"; for 2 loads and more

// Returns all steps of a run, for figures that are not of a load; they count like loads.
LoadSpan logged_steps(const History& history);

// All loads of a run.
struct LoadEvidence {
  LoadSpan span;
  double expected = 0;      // tokens of an even share in all loads together
  bool are_totals = false;  // the log of another program has only totals that are large enough to be judged
  bool lasts(std::int64_t steps) const { return are_totals || span.lasts(steps); }
};
LoadEvidence load_evidence(const History& history);
// True for loads of so many tokens, on average, in the log of another program. `has_loss`: it has a loss.
bool are_totals(RunOrigin origin, bool has_loss, std::int64_t loads, double tokens_of_load);
// Returns "one total of 100,000 tokens" or "3 totals of 300,000 tokens".
std::string totals_text(std::int64_t totals, double tokens);
// Returns " 3 totals do not show exactly when this began, or whether it lasts."
std::string limits_text(std::int64_t totals);

}  // namespace moescope
