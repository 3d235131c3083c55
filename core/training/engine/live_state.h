// State that the callers of LiveRuns share with its training thread (live_thread.h). All functions, and all members
// of LiveState after the mutex, require its lock.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "core/config/config_field.h"
#include "core/frame/frame.h"
#include "core/frame/operand_place.h"
#include "core/recording/frame_sink.h"
#include "core/training/capture.h"
#include "core/training/engine/checkpoint_ring.h"
#include "core/training/engine/engine.h"
#include "core/training/engine/live_status.h"

namespace moescope {

// A live change and the step before which it takes effect.
struct PinnedChange {
  std::uint64_t id = 0;  // from 1, rises in the order of acceptance
  std::int64_t step = kNotYet;
  LiveChange change;
  Marker marker;  // without run and step

  static constexpr std::int64_t kNotYet = -1;  // accepted during a step; takes effect after it
};

// Selects the changes that a run inherits when it joins later.
struct Inheritance {
  int run = 0;               // inherits the changes of this run
  std::uint64_t after = 0;   // id of the last change that its first settings contain
  std::set<Setting> except;  // settings in which it differs on purpose
};

// The accepted live changes in their order, each with the step before which it took effect. A run that joins later
// inherits the changes of another run. A rewind to a checkpoint undoes the changes after it.
class ChangeLog {
 public:
  const PinnedChange& add(LiveChange change, Marker marker);
  void set_step(std::uint64_t id, std::int64_t step);  // does nothing if the change was undone
  std::vector<PinnedChange> inherited(const Inheritance& inheritance) const;

  // Notes that the checkpoint of `step` contains the changes up to the id `last`; 0: no changes.
  void note_checkpoint(std::int64_t step, std::uint64_t last) { last_before_[step] = last; }
  void forget_checkpoints_after(std::int64_t step) {
    last_before_.erase(last_before_.upper_bound(step), last_before_.end());
  }
  std::uint64_t last_before(std::int64_t step) const;
  void undo_after(std::int64_t step);  // undoes changes after the checkpoint of `step`, and forgets later checkpoints

 private:
  std::vector<PinnedChange> changes_;
  std::uint64_t last_id_ = 0;
  std::map<std::int64_t, std::uint64_t> last_before_;  // by step of the checkpoint
};

// Requests by the callers of LiveRuns, which the training thread serves between two steps. A request is checked when it
// is made; until it is served, its run may have been removed.
struct SaveRequest {
  std::string directory;
};
struct AddRunRequest {
  int number = 0;
  RunConfig config;  // at the first step of the run
  Inheritance inheritance;
  CheckpointRing::Snapshot from;  // state from which the run starts; nullptr: step 0
  std::string text;               // text of a marker; empty: no marker
};
struct RemoveRunRequest {
  int number;
};
struct CaptureRequest {
  int run;
  OperandPlace place;
  std::shared_ptr<Capture> capture;
};
struct KeepCheckpointRequest {};
struct RewindRequest {
  std::int64_t step;
  std::map<int, CheckpointRing::Snapshot> runs;  // nullptr: the run has not reached the step
};

using LiveRequest = std::variant<PinnedChange, SaveRequest, AddRunRequest, RemoveRunRequest, CaptureRequest,
                                 KeepCheckpointRequest, RewindRequest>;

struct LiveState {
  struct OpenRun {
    int number;
    RunConfig config;  // with all accepted changes
    std::shared_ptr<const History> history;
    std::int64_t first_step = 0;
  };

  // `recording_path`: recording of the engine; checkpoints to rewind to are beside it. The engine must outlive this
  // object.
  LiveState(Engine& engine, const std::string& recording_path);

  bool wants_step() const { return !broken && (single_steps > 0 || status.running); }
  void ask();                          // wakes the training thread for a round of work between steps
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
  std::uint64_t requested_rounds = 0,
                finished_rounds = 0;  // numbers of requested, of finished rounds of work between steps
  LiveStatus status;
};

}  // namespace moescope
