// The loss gaps of a run with earlier seeds, which the recording of the next seed keeps as an event at step 0: its mean
// over the seeds is then there when the recording is opened.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/findings/comparison/verdict.h"

namespace moescope {

// "earlier seeds, gaps of the training loss: 0.0085 0.0012".
std::string seeds_text(std::span<const Conclusion> by_seed);
// The conclusions of the run's event, which have the judged loss and the gap alone; empty: it has none.
std::vector<Conclusion> recorded_seeds(const History& run);

// About how many seeds would settle a verdict that is open over `known` ones.
double seeds_to_settle(const Conclusion& over_seeds, int known);

}  // namespace moescope
