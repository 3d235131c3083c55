// Tests which runs of a lesson can be compared: runs that differ in one thing, so that different figures have one
// cause.
//
// One thing is one setting, or one of two choices that need several settings:
//   way of balancing  none, bias rule or auxiliary loss, if the runs use different ones; includes its strength
//                     (router.bias_update_rate, router.aux_mode, router.aux_coeff); not if a run uses rule and loss
//   limit on groups   router.n_groups and router.n_limited_groups, if a run has no limit
#pragma once

#include <string>
#include <vector>

#include "core/lessons/lesson.h"

namespace moescope {

// Returns the keys of settings and names of choices in which the runs differ, apart from their names.
std::vector<std::string> things_that_differ(const RunConfig& a, const RunConfig& b);

// Returns a sentence for every comparison of a lesson that could have two causes. Uses the settings of the runs at that
// step of the lesson, including live changes. A comparison has one cause if
//   - in every training, each twin differs in at most one thing from a run before it (A is before B);
//   - in every check that compares two runs, these differ in at most one thing.
std::vector<std::string> unclear_comparisons(const Lesson& lesson);

}  // namespace moescope
