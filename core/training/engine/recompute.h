// Recomputes an operand of a past step: training is deterministic, so a copy of the run that starts from a checkpoint
// or from step 0, with the same changes and batches, computes exactly the same tensor.
//
// The copy trains in a thread of its own; the run itself is not affected. As a check, the loss of the step must equal
// the recorded one to the bit.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "core/history/history.h"
#include "core/training/capture.h"
#include "core/training/engine/retrain.h"

namespace moescope {

struct RecomputePlan {
  int run = 0;  // RunInfo::run
  OperandPlace place;
  std::int64_t step = 0;
  float loss = kNoValue;  // of that step, as recorded
  std::string kernels;    // by which (RunInfo::kernels)

  RecordedTraining training;  // of the run, from a checkpoint if one is known
};

// Builds the plan from the histories of the run and of the first run. Throws std::invalid_argument with the reason why
// the step cannot be recomputed: it was not taken, or the run began from a checkpoint that is not kept. Throws as
// recorded_config() and recorded_changes() do (recorded_run.h).
RecomputePlan plan_recompute(const History& run, const History& first, const OperandPlace& place, std::int64_t step,
                             std::shared_ptr<const TrainerSnapshot> from = nullptr, std::string from_file = {});

// Throws std::runtime_error, with what may be the cause, if the step did not give the recorded loss to the bit.
void check_loss(const RecomputePlan& plan, float loss);

// The newest checkpoint of a run at or before `step` in the folder beside its recording; empty: none.
std::string recorded_checkpoint(const std::string& recording_path, const std::string& run_name, std::int64_t step);

class Recomputation {
 public:
  explicit Recomputation(RecomputePlan plan);  // starts at once
  ~Recomputation();                            // stops after the step in flight

  std::int64_t first_step() const { return first_step_; }  // where it started; valid once it is ready
  std::int64_t next_step() const { return next_step_; }
  std::int64_t step() const { return plan_.step; }
  const OperandPlace& place() const { return plan_.place; }
  // Ready: the operand; the loss of its step equals the recorded one. Failed: the reason, for example a different loss.
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
