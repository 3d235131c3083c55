// The rule of evidence of all watches of a load. Evidence is counted in loads, that is, records with tokens_per_expert,
// and in the tokens that an expert should have had in them.
//
// A watch states for how many training steps a condition has to last, because a router may correct itself in fewer.
// A log of every step needs as many loads; a log of every n-th step needs as many as it has in these steps, and never
// fewer than kMinLoads. A log that consists of one total of many tokens is judged by that total.
#pragma once

#include <cstdint>
#include <string>

#include "core/frame/run_origin.h"
#include "core/recording/history/history.h"

namespace moescope {

// A lasting condition has been seen in at least this many loads, however far apart they are.
inline constexpr std::int64_t kMinLoads = 10;
// Number of tokens of an even share that an expert must have missed; the probability that it misses them by chance is
// exp(-50).
inline constexpr double kExpected = 50;
// A single total is evidence if it has at least this many tokens: about as many as the newest loads of a training that
// are judged together.
inline constexpr double kTokensOfTotal = 50'000;

// Successive loads of a log.
struct LoadSpan {
  std::int64_t loads = 0;
  std::int64_t first = -1, last = -1;  // steps of the first and of the last load

  double interval() const;                        // mean number of steps from a load to the next one, at least 1
  std::int64_t needed(std::int64_t steps) const;  // number of loads for a condition that has to last for `steps` steps
  bool lasts(std::int64_t steps) const { return loads >= needed(steps); }
};
// Returns "350 steps", "12 loads, one every 50 steps", "12 loads, about one every 37 steps" or "1 load".
std::string loads_text(const LoadSpan& span);
std::string interval_text(const LoadSpan& span);  // "one every 50 steps"; for 2 loads and more

// Returns all steps of a run, for figures that are not of a load; they count like loads.
LoadSpan logged_steps(const History& history);

// All loads of a run.
struct LoadEvidence {
  LoadSpan span;
  double expected = 0;     // tokens of an even share in all loads together
  bool one_total = false;  // the log of another program has a single load, which is large enough to be judged
  bool lasts(std::int64_t steps) const { return one_total || span.lasts(steps); }
};
LoadEvidence load_evidence(const History& history);
// True for a single load of `tokens` tokens in the log of another program.
bool is_one_total(RunOrigin origin, std::int64_t loads, double tokens);

}  // namespace moescope
