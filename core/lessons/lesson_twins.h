// Which runs of a lesson can be held against each other: those that differ in one thing, so that what happens has one
// cause.
//
// One thing is one setting, or one of two recipes that take several settings to write down:
//   way of balancing  none, the bias rule or the auxiliary loss in place of another of the three, with its strength
//                     (router.bias_update_rate, router.aux_mode, router.aux_coeff); a run that has both has no such way
//   limit on groups   none in one run (router.n_groups, router.n_limited_groups)
#pragma once

#include <string>
#include <vector>

#include "core/lessons/lesson.h"

namespace moescope {

// Keys of settings and names of recipes; empty: the same but for their names.
std::vector<std::string> things_that_differ(const RunConfig& a, const RunConfig& b);

// A sentence for everything in a lesson that has two causes; empty: nothing has. Judged with the settings that the runs
// have by then, live changes included:
//   - whenever it trains, every twin differs in at most one thing from a run before it (A is before B);
//   - every check that holds one run against another is about two that differ in at most one thing.
std::vector<std::string> unclear_comparisons(const Lesson& lesson);

}  // namespace moescope
