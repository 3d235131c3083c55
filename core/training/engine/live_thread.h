// The thread that trains the open runs of LiveRuns and serves the requests of its callers between two steps.
//
// Only this thread uses the engine, except for the engine's sink. LiveState holds the state shared with the callers;
// the thread locks it briefly and never while it trains.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/model/layers/operand_tap.h"
#include "core/training/capture.h"
#include "core/training/engine/engine.h"
#include "core/training/engine/live_state.h"

namespace moescope {

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
