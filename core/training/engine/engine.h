// Runs in training: one to kMaxRuns trainers in lock-step on the same batches, with their histories and recording.
//
// train() is the only loop over training steps in the program. Schedules decide whether it takes another step:
// LiveRuns, which the user steers; RunQueue, many runs in groups; moescope-cli train, a given number of steps. Every
// run takes a step before any run takes the next one. With enough threads the runs take it side by side (threads.h),
// which changes no bit, only the speed. Batches are those of the first run's [data] section and seed: a run that
// differs from it only in `seed` starts from other weights and reads the same text. All runs share the mixture of
// domains, which is kept by step, so that a run that joins later reads the same batches while it catches up alone. As
// one of several ranks (Trainer) an engine takes steps together with the other ranks; only rank 0 has a recording.
// stop() and sink() may be called from any thread; all other functions only by the thread of train(), or while it
// waits.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/config/run_config.h"
#include "core/model/routing_flips.h"
#include "core/model/text/dataset.h"
#include "core/recording/frame_sink.h"
#include "core/training/engine/lock_step.h"
#include "core/training/trainer.h"

namespace moescope {

class Engine;

struct EngineOptions {
  std::string recording = {};                        // path; empty: histories in memory only
  std::size_t array_bytes = std::size_t{512} << 20;  // limit of the arrays in the history of each run
  bool twins_end_alone = false;              // a NaN or infinite loss ends only that run, unless it is the first
  std::optional<RunConfig> batches_of = {};  // run whose [data] and seed give the batches; nullopt: first run
  bool compares_runs = true;                 // adds flips against the first run, and the validation loss
  GoesOn goes_on = {};                       // called while the data are opened
};

// A loss that is NaN or infinite, or a failed step.
struct Trouble {
  std::string name;
  std::int64_t step = 0;
  std::string reason;
  bool within_step = false;  // the step failed, so the runs are in an undefined state and cannot continue

  std::string text() const;  // "run a: the loss is NaN or infinite at step 5", "run a: step 5 failed: no memory"
};

// Callbacks in the thread of train(). An exception from one of the first four fails the step.
class EngineObserver {
 public:
  virtual ~EngineObserver() = default;
  virtual void before_step(Engine&) {}
  virtual void frame(const TelemetryFrame&) {}  // for each run in order, before the frame is recorded
  virtual void twin_lost(const Trouble&) {}     // with EngineOptions::twins_end_alone; the other runs continue
  virtual void after_step(Engine&) {}           // not called after a failed step
  virtual void ended(Engine&) {}                // before train() returns; train() passes on its exceptions
};

class Engine {
 public:
  struct Run {
    int number;  // RunInfo::run
    Trainer trainer;
    std::optional<std::chrono::steady_clock::time_point> start = {};  // begin of the first step in this engine
    OperandTap* tap = nullptr;                                        // captures an operand of the next step
    bool non_finite = false;                                          // the last step had a NaN or infinity
  };

  // `trainers`: 1 to kMaxRuns, with equal numbers of steps taken; they become runs 0, 1, ... Throws std::runtime_error
  // if configs do not fit together (lock_step_problem()), data cannot be read or the recording cannot be created.
  explicit Engine(std::vector<Trainer> trainers, const EngineOptions& options = {});

  // Takes a step whenever `wants_step` returns true. Returns when it returns false or after stop(). Trouble of a run
  // does not end train(): `wants_step` decides.
  void train(const std::function<bool()>& wants_step, EngineObserver& observer);
  // Ends train() after the current training calls; some runs may have taken the step and others not.
  void stop() { stopping_ = true; }

  const std::optional<Trouble>& trouble() const { return trouble_; }  // last trouble
  void forget_trouble() { trouble_.reset(); }

  const std::vector<Run>& runs() const { return runs_; }
  const Run& first() const { return runs_.front(); }
  Trainer* find(int number);  // nullptr if there is no such run
  // Histories of the runs that the engine began with.
  const std::vector<std::shared_ptr<const History>>& histories() const { return histories_; }
  FrameSink& sink() { return *sink_; }
  const std::string& recording() const { return recording_; }  // path; empty: none
  const Dataset& data() const { return *data_; }
  Batch batch(std::int64_t step) const;  // with the mixture of that step
  std::int64_t next_step() const;        // lowest next step of all runs
  // True if no run is behind the first run.
  bool level() const { return next_step() == first().trainer.steps_taken(); }

  // Adds a run that the sink already has. `trainer` must fit the first run by lock_step_problem() and must not have
  // taken more steps. Throws std::runtime_error if it would replay the routing of steps that the first run has already
  // taken.
  void add(int number, Trainer trainer);
  void remove(int number);  // must not be the first run
  // Sets data.mixture for the batches of `step` and later. Throws std::invalid_argument like Dataset::mixture().
  void set_mixture(std::int64_t step, const std::string& text);
  void tap_next_step(int number, OperandTap* tap);

  // Writes FOLDER/<step>/<run name>.safetensors (checkpoint_folder.h), and a marker to every run. Collective over
  // ranks. Returns the error; empty if this or another rank has written the checkpoint.
  std::string save_checkpoint(const std::string& folder);

 private:
  void take_step(EngineObserver& observer);
  void note_first_non_finite(Run& run, std::int64_t step);
  void lose(int run, std::int64_t step, EngineObserver& observer);
  void write_checkpoint_of_runs(const std::string& folder);

  // Takes `step` with all runs whose next step it is, and adds flips and validation loss to their frames.
  void step_runs(std::int64_t step, const std::function<void(TelemetryFrame)>& publish);
  void pass_on_routing();  // gives the first run's routing to the runs that replay it
  void add_flips(const Run& run, TelemetryFrame& frame);
  void add_validation(Run& run, TelemetryFrame& frame);

  const std::string recording_;
  const bool twins_end_alone_, compares_runs_;
  std::vector<Run> runs_;
  std::unique_ptr<Dataset> data_;
  std::optional<FrameSink> sink_;
  std::vector<std::shared_ptr<const History>> histories_;
  std::optional<Trouble> trouble_;
  std::atomic<bool> stopping_ = false;

  std::map<std::int64_t, Mixture> mixtures_;         // by the first step of each mixture
  std::vector<Batch> held_out_;                      // loaded when first needed
  RoutingArchive routing_;                           // routing of the first run
  std::vector<std::vector<std::int32_t>> replayed_;  // [MoE layer][T, K], routing of the first run in the current step
  int in_step_ = 0;                                  // number of the run whose step was taken last
};

}  // namespace moescope
