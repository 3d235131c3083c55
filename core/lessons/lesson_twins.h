// Tests which runs of a lesson can be compared: runs that differ in one thing, so that a difference has one cause.
//
// One thing is one setting, or one of two choices that need several settings:
//   way of balancing  one of none, bias rule and auxiliary loss instead of another of these, with its strength
//                     (router.bias_update_rate, router.aux_mode, router.aux_coeff); a run with both has no such way
//   limit on groups   none in one run (router.n_groups, router.n_limited_groups)
#pragma once

#include <string>
#include <vector>

#include "core/lessons/lesson.h"

namespace moescope {

// Returns keys of settings and names of choices; empty if the runs differ in their names at most.
std::vector<std::string> things_that_differ(const RunConfig& a, const RunConfig& b);

// Returns a sentence for every comparison in a lesson that could have two causes. Uses the settings of the runs at that
// point, including live changes. A comparison has one cause if
//   - in every training, each twin differs in at most one thing from a run before it (A is before B);
//   - in every check that compares two runs, these differ in at most one thing.
std::vector<std::string> unclear_comparisons(const Lesson& lesson);

}  // namespace moescope
