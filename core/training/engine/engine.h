// Runs in training: one to kMaxRuns trainers in lock-step on the same batches, with their histories and recording.
//
// train() is the program's one loop of steps. A schedule decides whether it takes another: LiveRuns, which a person
// steers; RunQueue, many runs in groups; moescope-cli train, so many steps.
// Every run takes a step before any takes the next. Where there are threads enough they take it side by side
// (threads.h), which changes no bit, only the speed of each. Batches are those of the first run's [data] section and
// seed: a run that differs from it only in `seed` starts from other weights and reads the same text. The mixture of
// domains is one for all, and is kept by step: a run that joins later trains alone until it has caught up, and reads
// what the others read.
// As one of several ranks (Trainer) an engine takes the steps that all take, and only rank 0 is given a recording.
// stop() and sink() may be called from any thread, everything else by the thread of train() or while that waits.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/config/run_config.h"
#include "core/data/dataset.h"
#include "core/recording/frame_sink.h"
#include "core/training/engine/lock_step.h"
#include "core/training/routing_flips.h"
#include "core/training/trainer.h"

namespace moescope {

class Engine;

struct EngineOptions {
  std::string recording = {};                        // path; empty: histories in memory alone
  std::size_t array_bytes = std::size_t{512} << 20;  // of arrays that the history of each run keeps
  bool twins_end_alone = false;  // a loss that is NaN or infinite ends that run alone, unless it is the first
  std::optional<RunConfig> batches_of = {};  // whose [data] and seed give the batches; none: the first run's
  bool compares_runs = true;                 // frames have flips against the first run, and the validation loss
  GoesOn goes_on = {};                       // asked while the data are opened
};

// A loss that is NaN or infinite, or a step that failed.
struct Trouble {
  int run = 0;  // RunInfo::run
  std::string name;
  std::int64_t step = 0;
  std::string why;
  bool within_step = false;  // the step failed: the runs are not between two steps, and cannot go on

  std::string text() const;  // "run a: the loss is NaN or infinite at step 5", "run a: step 5 failed: no memory"
};

// What happens beside the steps, in the thread of train(). What the first four throw fails the step.
class EngineObserver {
 public:
  virtual ~EngineObserver() = default;
  virtual void before_step(Engine&) {}
  virtual void frame(const TelemetryFrame&) {}  // of each run in their order, before it is recorded
  virtual void twin_lost(const Trouble&) {}     // with EngineOptions::twins_end_alone; the others go on
  virtual void after_step(Engine&) {}           // not of one that failed
  virtual void ended(Engine&) {}                // train() returns; what this throws it throws
};

class Engine {
 public:
  struct Run {
    int number;  // RunInfo::run
    Trainer trainer;
    std::optional<std::chrono::steady_clock::time_point> start = {};  // of its first step here
    OperandTap* tap = nullptr;                                        // of its next step
  };

  // 1 to kMaxRuns trainers that have taken the same number of steps, as runs 0, 1, ... Throws std::runtime_error:
  // configs that do not fit together (lock_step_problem()), data that cannot be read, a recording that cannot be made.
  explicit Engine(std::vector<Trainer> trainers, const EngineOptions& options = {});

  // Takes a step whenever `wants_step` returns true, and returns once it returns false or after stop(). A run in
  // trouble does not end it: `wants_step` decides.
  void train(const std::function<bool()>& wants_step, EngineObserver& observer);
  void train_until(std::int64_t step);  // or until there is trouble
  // Ends train() after what is in flight: of several runs some may have taken the step, and the others not.
  void stop() { stopping_ = true; }

  const std::optional<Trouble>& trouble() const { return trouble_; }  // the last one
  void forget_trouble() { trouble_.reset(); }

  const std::vector<Run>& runs() const { return runs_; }
  const Run& first() const { return runs_.front(); }
  Trainer* find(int number);  // nullptr: there is no such run
  // The histories of the runs that it began with.
  const std::vector<std::shared_ptr<History>>& histories() const { return histories_; }
  FrameSink& sink() { return *sink_; }
  const std::string& recording() const { return recording_; }  // path; empty: none
  const Dataset& data() const { return *data_; }
  Batch batch(std::int64_t step) const;  // with the mixture of that step
  std::int64_t next_step() const;        // the lowest next step of all runs
  bool level() const { return next_step() == first().trainer.steps_taken(); }

  // The sink has the run already. `trainer` must fit the first by lock_step_problem() and have taken no more steps than
  // it. Throws std::runtime_error where it would replay a routing of steps that the first has behind it.
  void add(int number, Trainer trainer);
  void remove(int number);  // not the first
  // data.mixture for the batches of `step` and later. Throws std::invalid_argument as Dataset::mixture().
  void set_mixture(std::int64_t step, const std::string& text);
  void tap_next_step(int number, OperandTap* tap);

  // Writes FOLDER/<step>/<run name>.safetensors (checkpoint_folder.h), and a marker to every run. Collective over
  // ranks. Returns why it could not; empty: it is written, or another rank writes it.
  std::string save_checkpoint(const std::string& folder);

 private:
  // A run's step, or what it threw.
  struct Taken {
    Run* run;
    TelemetryFrame frame = {};
    std::exception_ptr error = {};
  };
  void take_step(EngineObserver& observer);
  void lose(int run, std::int64_t step, EngineObserver& observer);
  void write_checkpoint_of_runs(const std::string& folder);

  // engine_step.cpp: one step of all runs that are at it.
  void step_runs(std::int64_t step, const std::function<void(TelemetryFrame)>& publish);
  std::vector<Taken> train_side_by_side(std::span<Run* const> runs, const Batch& batch);
  bool any_replays() const;
  void hand_routing_on();  // from the first, which has taken the step, to those that replay it
  void add_flips(const Run& run, TelemetryFrame& frame);
  void add_validation(Run& run, TelemetryFrame& frame);

  const std::string recording_;
  const bool twins_end_alone_, compares_runs_;
  std::vector<Run> runs_;
  std::unique_ptr<Dataset> data_;
  std::optional<FrameSink> sink_;
  std::vector<std::shared_ptr<History>> histories_;
  std::optional<Trouble> trouble_;
  std::atomic<bool> stopping_ = false;

  std::map<std::int64_t, Mixture> mixtures_;         // by the first step of each
  std::vector<Batch> held_out_;                      // once wanted
  RoutingArchive routing_;                           // of the first
  std::vector<std::vector<std::int32_t>> replayed_;  // [MoE layer][T, K] of the first in the step that runs take now
  int in_step_ = 0;                                  // the run whose step was taken last
};

}  // namespace moescope
