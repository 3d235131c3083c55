// State that the callers of LiveRuns share with its training thread (live_thread.h). All functions, and all members
// after the mutex, require its lock.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/recording/frame_sink.h"
#include "core/training/engine/change_log.h"
#include "core/training/engine/checkpoint_ring.h"
#include "core/training/engine/engine.h"
#include "core/training/engine/live_requests.h"
#include "core/training/engine/live_status.h"

namespace moescope {

struct LiveState {
  struct OpenRun {
    int number;
    RunConfig config;  // with all accepted changes
    std::shared_ptr<History> history;
    std::int64_t first_step = 0;
  };

  // `recording_path`: recording of the engine; checkpoints to rewind to are beside it. The engine must outlive this
  // object.
  LiveState(Engine& engine, const std::string& recording_path);

  bool wants_step() const { return !broken && (single_steps > 0 || status.running); }
  void ask();  // wakes the training thread for a round of work between steps
  void open_run(int number, const RunConfig& config);
  OpenRun* find(int number);           // nullptr if there is no such run
  OpenRun& find_or_throw(int number);  // throws std::invalid_argument

  FrameSink& sink;                         // callable from any thread
  CheckpointRing ring;                     // callable from any thread
  const std::vector<std::string> domains;  // domains of the open data

  std::mutex mutex;
  std::condition_variable wake;  // wakes the training thread for a request
  std::condition_variable idle;  // wakes LiveRuns::flush() when requests are served
  bool stop = false;             // the thread must end
  // An exception interrupted a trainer within a step, so no further step is possible. Only the training thread writes
  // it.
  bool broken = false;
  bool level = true;             // no run is catching up
  std::int64_t first_step = 0;   // step at which training began
  std::int64_t lowest_step = 0;  // lowest next step of all runs
  std::int64_t run_before = 0;   // while running: pause before taking this step
  int single_steps = 0;
  double max_steps_per_s = 0;
  std::vector<OpenRun> runs;  // A first
  int next_number = 0;
  RunConfig first_config_at_start;
  ChangeLog changes;
  std::deque<LiveRequest> requests;
  std::uint64_t asked = 0, done = 0;  // counters of rounds of work between steps
  LiveStatus status;
};

}  // namespace moescope
