// The open runs (A to D) and the one thread that trains them in lock-step on the same batches.
//
// Every method but flush() may be called from any thread and returns at once; what was asked happens between two steps.
// Batches are those of run A's [data] section and seed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/run_config.h"
#include "core/telemetry/frame_sink.h"
#include "core/telemetry/history.h"
#include "core/trainer.h"

namespace moescope {

inline constexpr int kMaxRuns = 4;

struct LabStatus {
  bool running = false;   // false: paused, finished or failed
  std::int64_t step = 0;  // next step to take
  double tokens_per_s = 0;
  std::string error;    // why training stopped, empty: it did not fail
  std::string warning;  // what went wrong last without stopping it: a checkpoint or the recording; empty: nothing
};

class Lab {
 public:
  // 1 to kMaxRuns configs that passed validate(), with equal [data] sections; a name that is there twice gets a number.
  // Starts paused. Throws std::runtime_error (data, recording).
  Lab(std::vector<RunConfig> configs, std::string recording_path);  // empty path: no recording
  // Goes on with trainers that have all taken the same number of steps.
  Lab(std::vector<Trainer> trainers, std::string recording_path);
  ~Lab();  // stops within a step and joins

  std::vector<std::shared_ptr<History>> histories() const;
  LabStatus status() const;

  void run();        // a run whose loss became NaN is tried again; after any other error it stays as it is
  void pause();      // after the step in flight
  void step_once();  // pauses first if it runs
  void run_until(std::int64_t step);       // pauses before taking `step`
  void set_max_steps_per_s(double limit);  // 0: as fast as it can
  // Takes effect before the next step and is recorded as a marker "key old -> new". Throws std::invalid_argument,
  // changing nothing, when there is no such run or key, the key is not live, or the config would not pass validate().
  void change(const LiveChange& change);
  void note(std::string text);      // pinned to the next step of every run
  RunConfig config(int run) const;  // with all changes that were accepted
  // Between two steps: DIRECTORY/<step>/<run name>.safetensors. Failure becomes status().warning and a marker.
  void save_checkpoint(std::string directory);
  // Waits until what was asked before is done and all frames so far are in the histories and in the recording.
  // It does not wait for run(), run_until() or step_once() to end.
  void flush();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moescope
