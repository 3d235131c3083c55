// Verdicts as a sentence and in a few words for a row of a table, and what would settle open verdicts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/findings/comparison/verdict.h"

namespace moescope {

std::string verdict_sentence(const Conclusion& c);  // names the runs; empty: none were compared

enum class VerdictWord {
  good_enough,
  worse,
  better,
  not_settled,  // the interval is across an edge, but without 0; or on one side of the edges, but not for long enough
  not_told_apart,  // the interval contains 0 and is across an edge of the band
  not_judged,      // no interval, and more steps give none: there is no noise twin, or it does not drift
  too_early        // no interval yet
};
VerdictWord verdict_word(const Conclusion& c);
const char* to_text(VerdictWord word);       // "Good enough"
std::string verdict_text(VerdictWord word);  // within a sentence: "not told apart"
// "Worse"; "So far: worse" while the runs go on; "Worse, unconfirmed" at their end if it has not held for long enough.
std::string verdict_name(const Conclusion& c);

// Returns the reason in one or several lengths, the longest first: "above the band, nine times what matters", "gaps
// below 0.0031 may be chance".
std::vector<std::string> verdict_reasons(const Conclusion& c);

// "from step 700 on the runs read different text: their losses cannot be compared"; empty: they do not.
std::string other_text(const Conclusion& c);

// ", only since step 264" for a verdict at the end of the runs that has not held for long enough; else "".
std::string late_text(const Conclusion& c);

// True if the interval of a verdict ends so near to an edge of the band that another seed may give another verdict.
bool is_at_edge(const Conclusion& c);

// True if further seeds would tell more: there is no verdict, or another seed may give another. The gaps of formats
// with forced balance differ from seed to seed about as much as what matters, and a verdict may be at the edge of the
// band.
bool depends_on_seed(const Conclusion& c);

// Says how long a verdict has held that has not held long enough: "worse since step 162".
std::string held_text(const Conclusion& c);

// What would settle the open verdicts: another noise twin, or more steps.
struct Settlement {
  enum class How {
    nothing,         // all are settled, or nothing known would settle them
    first_twin,      // the first noise twin: there is none yet
    another_twin,    // one more noise twin, which narrows the interval
    forced_balance,  // all runs again with forced balance, which removes chance by routing
    more_steps       // up to `step`, for verdicts that take `missing_steps`
  };
  How how = How::nothing;
  std::vector<std::size_t> settled;  // indices of candidates that are settled; empty: the twin only narrows an interval
  std::size_t widest = 0;            // another_twin: candidate with the widest remaining interval
  float half_width = kNoValue;       // another_twin: half of that interval
  std::int64_t step = 0;             // more_steps
  std::int64_t missing_steps = 0;    // more_steps
  bool if_it_holds = false;          // more_steps: a verdict is not given if the interval leaves its side before
  bool confirms = false;             // more_steps: a verdict at the end of the runs will then have held for long enough
};
// `room`: true if a run can be added. `can_force`: true if the runs can start again with forced balance.
Settlement what_settles(std::span<const Conclusion> candidates, bool room, bool can_force = false);

}  // namespace moescope
