// Trains a recorded run again from its config and live changes, and compares every loss bit by bit.
//
// The batches are those of the recording's first run, as in lock-step. A run that does not begin with step 0 (resumed,
// or branched off another) has no beginning to train from.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/history/history.h"
#include "core/recording/recording.h"

namespace moescope {

struct Reproduction {
  std::int64_t compared = 0;         // steps
  std::int64_t differs_at = -1;      // first step with a different loss, -1: none
  float recorded = 0, computed = 0;  // there, nats/token
  std::string kernels;               // check_kernels().text, unless they are the same
  std::string text() const;          // what was compared, the result and, where losses differ, the kernels
};

// Why this run cannot be trained again; empty: it can. A log of another program has no config; the training text may be
// gone.
std::string reproduce_problem(const RunInfo& first, const History& history);

// At most `steps` steps (-1: all). `progress` gets the steps done and to do, and returns false to stop early. Throws
// std::runtime_error with reproduce_problem(), or with the change that cannot be repeated.
Reproduction reproduce(const RunInfo& first, const History& history, std::int64_t steps,
                       const std::function<bool(std::int64_t done, std::int64_t all)>& progress);

}  // namespace moescope
