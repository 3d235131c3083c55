// The thread that trains the open runs of LiveRuns, and serves what its callers ask between two steps.
//
// It alone touches the engine, but for its sink. What it shares with the callers is in LiveState, whose lock it holds
// for moments and never while it trains.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/training/engine/engine.h"
#include "core/training/engine/live_requests.h"
#include "core/training/engine/live_state.h"
#include "core/training/engine/pending_captures.h"

namespace moescope {

class LiveThread : public EngineObserver {
 public:
  LiveThread(Engine& engine, LiveState& shared);  // `shared` was made from it
  ~LiveThread() override;  // stops after the step in flight and joins; captures that still wait fail

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
  void frame(const TelemetryFrame&) override { ++taken_; }
  void after_step(Engine& engine) override;
  void apply_pending(std::int64_t step);
  void apply(int run, const PinnedChange& change);
  void keep_due(std::int64_t step);
  void keep(const Engine::Run& run, bool by_hand);
  void note_changes_before(std::int64_t step);
  void show_progress();
  void warn(const std::string& text);
  std::int64_t step_of_first() const { return engine_.first().trainer.steps_taken(); }

  Engine& engine_;
  LiveState& shared_;
  std::map<int, std::vector<PinnedChange>> pending_;  // by run, for steps that it has not reached
  Clock::time_point next_due_{}, step_begin_{};       // next_due_: of the speed limit
  int taken_ = 0;                                     // runs that took the step
  PendingCaptures captures_;
  std::uint64_t last_served_ = 0;  // id of a change
  std::thread thread_;             // last: everything above is ready when it starts
};

}  // namespace moescope
