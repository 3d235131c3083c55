// Tests whether runs can train in lock-step: every run takes a step before any takes the next, on the batches of the
// first.
#pragma once

#include <string>

#include "core/config/run_config.h"

namespace moescope {

inline constexpr int kMaxRuns = 5;

// Returns why `other` cannot use the experts that `first` chooses (router.replay); empty if it can, or if it
// chooses its experts itself.
std::string replay_problem(const RunConfig& first, const RunConfig& other);
// Returns why two runs cannot train in lock-step ([data] differs, or replay_problem()); empty if they can.
std::string lock_step_problem(const RunConfig& first, const RunConfig& other);

}  // namespace moescope
