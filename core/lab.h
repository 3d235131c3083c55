// The open runs (A to D) and the one thread that trains them in lock-step on the same batches.
//
// Every method may be called from any thread and returns at once; what was asked happens between two steps.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/run_config.h"
#include "core/telemetry/frame_sink.h"
#include "core/telemetry/history.h"

namespace moescope {

inline constexpr int kMaxRuns = 4;

struct LabStatus {
  bool running = false;   // false: paused, finished or failed
  std::int64_t step = 0;  // next step to take
  double tokens_per_s = 0;
  std::string error;      // why training stopped, empty: it did not fail
};

class Lab {
 public:
  Lab(std::vector<RunConfig> configs, std::string recording_path);  // throws std::runtime_error (data, recording)
  ~Lab();  // stops within a step and joins

  std::vector<std::shared_ptr<History>> histories() const;
  LabStatus status() const;

  void run();
  void pause();
  void step_once();
  void run_until(std::int64_t step);       // pauses before taking `step`
  void set_max_steps_per_s(double limit);  // 0: as fast as it can
  void change(LiveChange change);          // applied before the next step, recorded as a marker
  void note(std::string text);             // pinned to the next step
  RunConfig config(int run) const;         // with applied live changes
  void save_checkpoint(std::string directory);  // between two steps: DIRECTORY/<step>/<run name>.safetensors
  void flush();                            // all frames so far are in the histories and in the recording

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moescope
