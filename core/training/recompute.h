// An operand of a step that is over: training is deterministic, so a copy of the run, taken on from a checkpoint or
// from its beginning with the same changes and batches, computes the very tensor again.
//
// The copy trains in a thread of its own; the run it is of goes on untouched. That it is the same step is checked: the
// loss of the step must be the recorded one to the bit.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/telemetry/history/history.h"
#include "core/training/capture.h"
#include "core/training/trainer_snapshot.h"

namespace moescope {

struct RecomputePlan {
  int run = 0;  // RunInfo::run
  OperandPlace place;
  std::int64_t step = 0;
  float loss = kNoValue;  // of that step, as recorded
  std::string kernels;    // by which (RunInfo::kernels)

  RunConfig config;                                          // of the run at its first step
  std::shared_ptr<const TrainerSnapshot> from;               // nullptr: `from_file`
  std::string from_file;                                     // a checkpoint; empty: step 0
  std::vector<std::pair<std::int64_t, LiveChange>> changes;  // by the step before which each took effect

  DataConfig data;  // of the first run, whose batches are everyone's
  std::int64_t data_seed = 0;
  std::vector<std::pair<std::int64_t, std::string>> mixtures;  // data.mixture from a step on
};

// From what the histories of the run and of the first run hold. Throws std::invalid_argument with the reason why the
// step cannot be computed again: it was not taken, or began from a checkpoint that is not kept; and what
// recorded_config() and recorded_changes() throw (recorded_run.h).
RecomputePlan plan_recompute(const History& run, const History& first, const OperandPlace& place, std::int64_t step,
                             std::shared_ptr<const TrainerSnapshot> from = nullptr, std::string from_file = {});

// The newest checkpoint of a run at or before `step` in the folder beside its recording; empty: none.
std::string recorded_checkpoint(const std::string& recording_path, const std::string& run_name, std::int64_t step);

class Recompute {
 public:
  explicit Recompute(RecomputePlan plan);  // begins at once
  ~Recompute();                            // ends within a step

  std::int64_t first_step() const { return first_step_; }  // from which it started; valid once it is ready
  std::int64_t next_step() const { return next_step_; }
  std::int64_t step() const { return plan_.step; }
  const OperandPlace& place() const { return plan_.place; }
  // Ready: the operand, whose step's loss is the recorded one. Failed: why, among others that it is not.
  const Capture& capture() const { return capture_; }

 private:
  void work(const std::stop_token& stop);
  CapturedOperand compute(const std::stop_token& stop);

  RecomputePlan plan_;
  Capture capture_;
  std::atomic<std::int64_t> first_step_ = 0, next_step_ = 0;
  std::jthread thread_;  // last: everything above is ready when it starts
};

}  // namespace moescope
