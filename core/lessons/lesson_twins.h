// Which runs of a lesson can be compared: those that differ in one thing, so that a difference has one cause.
//
// One thing is one setting, or one of two choices that take several settings to express:
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

// A sentence for every comparison in a lesson that could have two causes; empty: there is none. Judged by the settings
// that the runs have at that point, live changes included:
//   - whenever it trains, every twin differs in at most one thing from a run before it (A is before B);
//   - every check that compares two runs is about two that differ in at most one thing.
std::vector<std::string> unclear_comparisons(const Lesson& lesson);

}  // namespace moescope
