// The thread that trains the open runs of LiveRuns and serves the requests of its callers between two steps.
//
// Only this thread uses the engine, except for the engine's sink. LiveState holds the state shared with the callers;
// the thread locks it briefly and never while it trains. All functions of its parts, and all members of LiveState after
// the mutex, require the lock.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "core/config/config_field.h"
#include "core/frame/frame.h"
#include "core/model/layers/operand_tap.h"
#include "core/numerics/gemm_operand.h"
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

// Captures that wait for the next step of their run. Used by the training thread only.
class PendingCaptures {
 public:
  ~PendingCaptures();  // fails waiting captures

  void add(int run, const OperandPlace& place, std::shared_ptr<Capture> capture);
  bool empty() const { return pending_.empty(); }
  void fail_run(int run, const std::string& reason);
  void fail_all(const std::string& reason);

  // Attaches the first waiting capture of each run that takes the next step to that step. Call finish_step() after that
  // step.
  void join_step(Engine& runs);
  void finish_step(Engine& runs);
  // Computes in advance the captures of runs that do not take the next step (of all runs while training is paused),
  // from the step that they will take next. Does not change the runs.
  void compute_ahead(Engine& runs, bool paused);

 private:
  struct Pending {
    int run;
    std::shared_ptr<Capture> capture;
    std::unique_ptr<OperandTap> tap;
    std::int64_t step = -1;  // step that the capture is attached to; -1: none
  };
  void deliver(Pending& pending, const Trainer& trainer, std::int64_t step, bool ahead);
  std::deque<Pending> pending_;
};

class LiveThread : public EngineObserver {
 public:
  LiveThread(Engine& engine, LiveState& shared);  // `shared` must belong to `engine`
  ~LiveThread() override;                         // finishes the current step and joins; waiting captures fail

 private:
  using Clock = std::chrono::steady_clock;

  bool wait_for_step();
  bool wait_for_work(std::unique_lock<std::mutex>& lock);
  bool may_step();
  bool is_limited() const;
  void note_trouble();
  void do_requests(std::unique_lock<std::mutex>& lock);
  void serve(PinnedChange& request);
  void serve(const SaveRequest& request);
  void serve(const AddRunRequest& request);
  void serve(const RemoveRunRequest& request);
  void serve(const CaptureRequest& request);
  void serve(const KeepCheckpointRequest& request);
  void serve(const RewindRequest& request);
  void compute_captures_ahead(std::unique_lock<std::mutex>& lock);
  void before_step(Engine& engine) override;
  void frame(const TelemetryFrame&) override { ++frames_; }
  void after_step(Engine& engine) override;
  void apply_pending(std::int64_t step);
  void apply(int run, const PinnedChange& change);
  void keep_due(std::int64_t step);
  void keep(const Engine::Run& run, bool by_hand);
  void note_changes_before(std::int64_t step);
  void show_progress();
  void begin_speed();  // begins a measurement of the speed
  void show_speed();
  void warn(const std::string& text);
  std::int64_t step_of_first() const { return engine_.first().trainer.steps_taken(); }

  Engine& engine_;
  LiveState& shared_;
  std::map<int, std::vector<PinnedChange>> pending_;  // changes at steps that the run has not reached, by run
  Clock::time_point next_due_{};                      // earliest time of the next step under the speed limit
  Clock::time_point speed_begin_ = Clock::now();
  std::int64_t steps_ = 0, frames_ = 0;  // since speed_begin_; frames_: steps of each run
  PendingCaptures captures_;
  std::uint64_t last_served_ = 0;  // id of the change that was served last
  std::thread thread_;             // last member: starts when all others are ready
};

}  // namespace moescope
