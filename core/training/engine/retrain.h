// Trains a recorded run again: from the same state, with the same changes and batches, it computes the same bits.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/config/config_field.h"
#include "core/config/run_config.h"
#include "core/recording/history/history.h"
#include "core/recording/recording.h"
#include "core/training/capture.h"
#include "core/training/engine/engine.h"
#include "core/training/operand_scan.h"
#include "core/training/trainer.h"

namespace moescope {

// Settings and live changes of a recorded run, from the config and the markers of its history, so that it can be
// trained again.

// Returns the change in a marker of kind "change". Throws std::runtime_error with its step if it does not name a
// setting and a valid value.
LiveChange recorded_change(const Marker& marker);

// Returns the settings at the first step. Throws std::runtime_error if they are not known or this version cannot read
// them.
RunConfig recorded_config(const RunInfo& info);
// Returns the files and folders that the settings name and that a training reads, each with its key: "data.path:
// texts". A recording of unknown origin can name any file, so a command names them before it reads them.
std::set<std::string> named_inputs(const RunConfig& config);
// Live changes with the step before which each took effect; without changes of telemetry.*, which do not affect
// training.
using StepChanges = std::vector<std::pair<std::int64_t, LiveChange>>;
StepChanges recorded_changes(const History& history);

struct RecordedTraining {
  RunConfig config;                             // config at the first step
  std::shared_ptr<const TrainerSnapshot> from;  // state to start from; nullptr: use `from_file`
  std::string from_file;                        // checkpoint file; empty: begin with step 0
  StepChanges changes;                          // changes of the run; those before its first step are not applied
  RunConfig batches_of;                         // first run, whose [data] and seed give the batches
  StepChanges mixtures;                         // changes of data.mixture of the first run
};

// True if the losses have the same bits, or if both are NaN, because a recording does not keep the bits of a NaN.
bool same_loss(float a, float b);

// Returns the changes of data.mixture, which all runs share.
StepChanges mixture_changes(const StepChanges& changes);

// Trains the run again as run 0 of an engine and applies the recorded changes before each step; computes no flips and
// no validation loss. `before_step` is called before every step and `frame` with the frame of the step just taken; each
// returns false to stop. Passes on the exceptions of `before_step`. Throws std::runtime_error if data or a checkpoint
// cannot be read, or if a step or `frame` fails.
void retrain(const RecordedTraining& recorded, const std::function<bool(Engine&)>& before_step,
             const std::function<bool(const TelemetryFrame&)>& frame);

// Trains a recorded run again from its config and live changes, and compares every loss bit by bit.
//
// The batches are those of the recording's first run, as in lock-step. A run that does not begin with step 0 (resumed,
// or branched off another run) cannot be trained again.
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

// Recomputes an operand of a past step. Training is deterministic, so a copy of the run that starts from a checkpoint
// or from step 0, with the same changes and batches, computes exactly the same tensor.
//
// The copy trains in a separate thread; the run itself is not affected. As a check, the loss of the step must equal the
// recorded loss bit by bit.
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
// exceptions of recorded_config() and recorded_changes().
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

// Scans the operands (operand_scan.h) at the step of the plan, whose place is ignored, in a copy of the run. Calls
// `step` before each step of the copy, and `pass` with the passes done and their number. Throws std::runtime_error,
// also when it was stopped, or if the step gives another loss than the recorded one.
OperandScan scan_recorded_step(const RecomputePlan& plan, const std::stop_token& stop,
                               const std::function<void(std::int64_t next)>& step,
                               const std::function<void(int done, int total)>& pass);

}  // namespace moescope
