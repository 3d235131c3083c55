// The one thread that trains the open runs of a lab in lock-step, and serves what its callers ask between two steps.
//
// It alone touches the trainers. What it shares with the callers is in LiveState, whose lock it holds for moments and
// never while it trains.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/training/engine/live_requests.h"
#include "core/training/engine/live_state.h"
#include "core/training/engine/lock_step.h"
#include "core/training/engine/pending_captures.h"

namespace moescope {

class TrainingThread {
 public:
  TrainingThread(LockStep lock_step, LiveState& shared);  // `shared` was made from it
  ~TrainingThread();  // stops after the step in flight and joins; captures that still wait fail

 private:
  using Clock = std::chrono::steady_clock;

  void main_loop();
  bool wait_for_work(std::unique_lock<std::mutex>& lock);
  bool is_limited() const;
  void do_requests(std::unique_lock<std::mutex>& lock);
  void serve(PinnedChange& request);
  void serve(const SaveRequest& request);
  void serve(const AddRunRequest& request);
  void serve(const RemoveRunRequest& request);
  void serve(const CaptureRequest& request);
  void serve(const KeepCheckpointRequest& request);
  void serve(const RewindRequest& request);
  void compute_captures_ahead(std::unique_lock<std::mutex>& lock);
  void take_step(std::unique_lock<std::mutex>& lock);
  void apply_pending(std::int64_t step);
  void apply(int run, const PinnedChange& change);
  void keep_due(std::int64_t step);
  void keep(const LockStep::Run& run, bool by_hand);
  void note_changes_before(std::int64_t step);
  void show_progress();
  void warn(const std::string& text);
  const LockStep::Run& first() const { return lock_step_.runs().front(); }

  LockStep lock_step_;
  LiveState& shared_;
  std::map<int, std::vector<PinnedChange>> pending_;  // by run, for steps that it has not reached
  Clock::time_point next_due_{};                      // of the speed limit
  PendingCaptures captures_;
  std::uint64_t last_served_ = 0;  // id of a change
  std::thread thread_;             // last: everything above is ready when it starts
};

}  // namespace moescope
