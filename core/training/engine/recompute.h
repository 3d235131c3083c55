// Recomputes an operand of a past step. Training is deterministic, so a copy of the run that starts from a checkpoint
// or from step 0, with the same changes and batches, computes exactly the same tensor.
//
// The copy trains in a separate thread; the run itself is not affected. As a check, the loss of the step must equal the
// recorded loss bit by bit.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "core/recording/history/history.h"
#include "core/training/capture.h"
#include "core/training/engine/retrain.h"
#include "core/training/operand_scan.h"

namespace moescope {

struct RecomputePlan {
  int run = 0;  // RunInfo::run
  OperandPlace place;
  std::int64_t step = 0;
  float loss = kNoValue;  // recorded loss of the step
  std::string kernels;    // kernels of the run (RunInfo::kernels)

  RecordedTraining training;  // from a checkpoint if one is known
};

// Builds the plan from the histories of the run and of the first run. Throws std::invalid_argument with the reason if
// the step cannot be recomputed: it was not taken, or the run began from a checkpoint that is not kept. Also throws the
// exceptions of recorded_config() and recorded_changes() (recorded_run.h).
RecomputePlan plan_recompute(const History& run, const History& first, const OperandPlace& place, std::int64_t step,
                             std::shared_ptr<const TrainerSnapshot> from = nullptr, std::string from_file = {});

// Returns the newest checkpoint of a run at or before `step` in the folder beside its recording; empty if there is
// none.
std::string recorded_checkpoint(const std::string& recording_path, const std::string& run_name, std::int64_t step);

class Recomputation {
 public:
  explicit Recomputation(RecomputePlan plan);  // starts the thread; the destructor stops it after the current step

  std::int64_t first_step() const { return first_step_; }  // valid when ready
  std::int64_t next_step() const { return next_step_; }
  std::int64_t step() const { return plan_.step; }
  const OperandPlace& place() const { return plan_.place; }
  // If ready, it holds the operand, and the step gave the recorded loss. If failed, it holds the reason, for example
  // another loss.
  const Capture& capture() const { return capture_; }

 private:
  void work(const std::stop_token& stop);

  RecomputePlan plan_;
  Capture capture_;
  std::atomic<std::int64_t> first_step_ = 0, next_step_ = 0;
  std::jthread thread_;  // last member: starts when all others are ready
};

// A scan of operands (operand_scan.h) at a past step of a run, or at the step just taken.
class RecomputedScan {
 public:
  // Starts the thread; ignores plan.place. The destructor stops it after the current step or pass.
  explicit RecomputedScan(RecomputePlan plan);

  const RecomputePlan& plan() const { return plan_; }
  std::int64_t next_step() const { return next_step_; }  // next step of the copy
  int passes_done() const { return done_; }
  int passes() const { return total_; }  // 0: the copy has not reached the step
  bool has_ended() const { return has_ended_; }
  // Valid when over(). nullopt: see error(), for example that the step gave another loss than the recorded one.
  const std::optional<OperandScan>& scan() const { return scan_; }
  const std::string& error() const { return error_; }

 private:
  void work(const std::stop_token& stop);
  OperandScan scan_operands_of(Engine& engine, const std::stop_token& stop);

  RecomputePlan plan_;
  std::optional<OperandScan> scan_;
  std::string error_;
  std::atomic<std::int64_t> next_step_ = 0;
  std::atomic<int> done_ = 0, total_ = 0;
  std::atomic<bool> has_ended_ = false;
  std::jthread thread_;  // last member: starts when all others are ready
};

}  // namespace moescope
