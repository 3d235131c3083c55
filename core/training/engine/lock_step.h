// Runs that train in lock-step on the same batches: every run takes a step before any takes the next. Where there are
// threads enough they take it side by side (threads.h), which changes no bit, only the speed of each.
//
// Batches are those of the first run's [data] section and seed: a run that differs from it only in `seed` starts from
// other weights and reads the same text. The mixture of domains is one for all, and is kept by step: a run that catches
// up reads what the others read. A run that joins later begins with step 0 and trains alone until it has caught up. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/data/dataset.h"
#include "core/training/engine/run_clock.h"
#include "core/training/routing_flips.h"
#include "core/training/trainer.h"

namespace moescope {

inline constexpr int kMaxRuns = 5;

// Why `other` cannot run the experts that `first` chooses (router.replay); empty: it can, or chooses its own.
std::string replay_problem(const RunConfig& first, const RunConfig& other);
// Why two runs cannot train in lock-step ([data] differs, or replay_problem()); empty: they can.
std::string lock_step_problem(const RunConfig& first, const RunConfig& other);

class LockStep {
 public:
  struct Run {
    int number;  // RunInfo::run
    Trainer trainer;
    RunClock clock = {};
    OperandTap* tap = nullptr;  // of its next step
  };

  // 1 to kMaxRuns trainers that have taken the same number of steps; their numbers are 0, 1, ... Throws
  // std::runtime_error: configs that do not fit together, data that cannot be read.
  explicit LockStep(std::vector<Trainer> trainers, const GoesOn& goes_on = {});

  // `trainer` must fit the first by lock_step_problem() and have taken no more steps than it. Throws
  // std::runtime_error where it would replay a routing of steps that the first has behind it.
  void add(int number, Trainer trainer);
  void remove(int number);  // not the first

  const std::vector<Run>& runs() const { return runs_; }
  Trainer* find(int number);  // nullptr: there is no such run
  const Dataset& data() const { return *data_; }
  Batch batch(std::int64_t step) const;  // with the mixture of that step
  // data.mixture for the batches of `step` and later. Throws std::invalid_argument as Dataset::mixture().
  void set_mixture(std::int64_t step, const std::string& text);
  std::int64_t next_step() const;  // the lowest next step of all runs
  bool level() const { return next_step() == runs_.front().trainer.steps_taken(); }

  void tap_next_step(int number, OperandTap* tap);

  // Takes next_step() with every run that is at it. `publish` gets each frame, in the order of the runs, and returns
  // false to end the round early. Returns the number of frames. If it throws, in_step() is the number of the run.
  int step(const std::function<bool(TelemetryFrame)>& publish);
  int in_step() const { return in_step_; }

 private:
  // A run's step, or what it threw.
  struct Taken {
    Run* run;
    TelemetryFrame frame = {};
    std::exception_ptr error = {};
  };
  std::vector<Taken> train(std::span<Run* const> runs, const Batch& batch);
  bool any_replays() const;
  void hand_routing_on();  // from the first, which has taken the step, to those that replay it
  void add_flips(const Run& run, TelemetryFrame& frame);
  void add_validation(Run& run, TelemetryFrame& frame);

  std::vector<Run> runs_;
  std::unique_ptr<Dataset> data_;
  std::map<std::int64_t, Mixture> mixtures_;         // by the first step of each
  std::vector<Batch> held_out_;                      // once wanted
  RoutingArchive routing_;                           // of the first
  std::vector<std::vector<std::int32_t>> replayed_;  // [MoE layer][T, K] of the first in the step that runs take now
  int in_step_ = 0;
};

}  // namespace moescope
