// Which runs can train in lock-step: every run takes a step before any takes the next, on the batches of the first.
#pragma once

#include <string>

#include "core/config/run_config.h"

namespace moescope {

inline constexpr int kMaxRuns = 5;

// Why `other` cannot run the experts that `first` chooses (router.replay); empty: it can, or chooses its own.
std::string replay_problem(const RunConfig& first, const RunConfig& other);
// Why two runs cannot train in lock-step ([data] differs, or replay_problem()); empty: they can.
std::string lock_step_problem(const RunConfig& first, const RunConfig& other);

}  // namespace moescope
