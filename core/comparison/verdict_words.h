// Verdicts in the few words that a row of a table has room for, and what would settle those that are open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/comparison/verdict.h"

namespace moescope {

enum class VerdictWord { good_enough, worse, better, not_told_apart, too_early };
VerdictWord verdict_word(const Conclusion& c);
const char* to_text(VerdictWord word);  // "Good enough"

// Why, long to short: "nine times what matters", "chance hides gaps below 0.0031".
std::vector<std::string> verdict_reasons(const Conclusion& c);

// What would settle the verdicts that are open.
struct Settlement {
  enum class How {
    nothing,       // all are settled, or nothing that is known of would do it
    first_twin,    // there is no noise twin
    another_twin,  // the interval gets narrower with one more
    more_steps     // up to `step`
  };
  How how = How::nothing;
  std::vector<std::size_t> settled;  // places in the candidates; empty: the twin narrows an interval, no more
  std::size_t widest = 0;            // another_twin: the candidate whose interval is the widest then
  float half = kNoValue;             // another_twin: of that one
  std::int64_t step = 0;             // more_steps
  std::int64_t lacking = 0;          // more_steps: until there is a verdict at all; 0: the step is an estimate
};
// `room`: a run can be added. The interval is taken to shrink as the root of the number of steps; more than twenty
// times as many are not suggested.
Settlement what_settles(std::span<const Conclusion> candidates, bool room);

}  // namespace moescope
