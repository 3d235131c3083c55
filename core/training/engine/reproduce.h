// Trains a recorded run again from its config and live changes, and compares every loss bit by bit.
//
// The batches are those of the recording's first run, as in lock-step. A run that does not begin with step 0 (resumed,
// or branched off another run) cannot be trained again.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>

#include "core/recording/history/history.h"
#include "core/recording/recording.h"

namespace moescope {

struct Reproduction {
  std::int64_t compared = 0;         // number of compared steps
  std::int64_t differs_at = -1;      // first step with a different loss; -1: none
  float recorded = 0, computed = 0;  // losses at that step, nats/token
  std::string kernels;               // check_kernels().text; empty: same kernels
  std::string text() const;          // number of steps and the result; if losses differ, also the kernels
};

// Returns why this run cannot be trained again (the log of another program has no config; a run may have no steps, or
// not begin with step 0); empty if nothing is known to prevent it.
std::string reproduce_problem(const RunInfo& first, const History& history);

// Returns the files and folders that reproduce() reads, with their keys (named_inputs()); also if it refuses the
// settings.
std::set<std::string> inputs_to_reproduce(const RunInfo& first, const RunInfo& info);

// Trains at most `steps` steps (-1: all). `progress` is called with the steps done and to do, and returns false to stop
// early. Throws std::runtime_error with reproduce_problem(), with a change that cannot be repeated, or like
// retrain().
Reproduction reproduce(const RunInfo& first, const History& history, std::int64_t steps,
                       const std::function<bool(std::int64_t done, std::int64_t all)>& progress);

}  // namespace moescope
