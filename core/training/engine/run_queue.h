// Many runs in training, in groups that train one after the other (run_groups.h), each with an engine and a recording
// of its own. Groups of a single run train several side by side where there are threads for them (threads.h), which
// changes no bit.
//
// Every method may be called from any thread. All return at once but for train(), start() after cancel() and the
// destructor, which wait for the step in flight.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/training/engine/engine.h"
#include "core/training/engine/run_groups.h"

namespace moescope {

struct QueueStatus {
  bool running = false;   // false: cancelled, failed or done
  bool done = false;      // all groups have finished
  int finished = 0;       // groups
  int group = 0;          // that trains, or that start() would begin with, from 0: the first that has not finished
  std::int64_t step = 0;  // next step of that group
  double share = 0;       // of the steps of all runs of all groups, finished groups and those taken
  double seconds_left = kNoValue;  // by the speed of the steps since start(); kNoValue: no step was measured yet
  std::string error;               // why it ended before its time; empty: it did not
  std::string warning;             // what did not end it: a candidate's lost loss, a recording that ended; the last one
};

class RunQueue {
 public:
  // After every step and every group, by one thread at a time; false: cancel().
  using GoOn = std::function<bool(const QueueStatus&)>;
  // Sees the steps of the group with this place; nullptr: nobody does.
  using ObserverOf = std::function<std::unique_ptr<EngineObserver>(Engine&, std::size_t group)>;

  // Groups whose runs passed validate(), each for so many steps. Beside `recording`, of which path_of_group() makes
  // those of the groups, lies the state of the queue (queue_file.h), for candidates alone; empty: there is none.
  RunQueue(std::vector<RunGroup> groups, std::int64_t steps, std::string recording = {});
  // The queue of queue_file_of(recording), with the groups that its recordings hold. Reads these; `go_on` gets the
  // share of groups read and returns false to cancel, which returns nullptr. Throws std::runtime_error: no such queue,
  // recordings that are not of it, as finished_group().
  static std::unique_ptr<RunQueue> take_up(const std::string& recording, const std::function<bool(double)>& go_on = {});
  ~RunQueue();  // cancels

  // Takes a group from its recording, if that has all steps. Not while it trains. Throws as finished_group().
  bool read_finished(std::size_t group);
  // Trains the groups that have not finished, from their first steps; their recordings are written anew. Returns
  // whether all have finished; status().error says why one failed, which ends the others.
  bool train(const GoOn& go_on = {}, const ObserverOf& observer_of = {});
  void start();   // train() in a thread of its own; nothing if it runs or is done
  void cancel();  // after the step in flight; finished groups stay

  QueueStatus status() const;
  std::int64_t steps() const { return steps_; }
  const std::string& recording() const { return recording_; }
  std::string kernels() const;  // that computed the finished groups; empty: not known, or none has finished
  std::vector<RunGroup> groups() const;

 private:
  class Observer;
  bool is_of_single_runs() const;
  void begin();
  void work(const GoOn& go_on, const ObserverOf& observer_of);
  std::optional<std::size_t> take();  // the next group to train
  void train_group(std::size_t place, const GoOn& go_on, const ObserverOf& observer_of);
  void require_success(std::size_t place, Engine& engine) const;
  void leave(std::size_t place, bool finished);
  void count_step(std::size_t place, std::int64_t taken);
  void tell(const GoOn& go_on);
  void fail(std::size_t place, const std::string& why);
  void warn(const std::string& text);
  void save();  // beside the recordings

  const std::int64_t steps_;
  const std::string recording_;
  Baseline baseline_;  // of the thread that trains groups with a run A
  std::atomic<bool> cancelled_ = false;
  std::mutex telling_;

  mutable std::mutex mutex_;  // of all below but the thread; held for moments
  std::vector<RunGroup> groups_;
  std::vector<std::int64_t> taken_;  // steps of each group
  std::size_t next_ = 0;             // the first group that nobody has begun
  bool running_ = false;
  std::string error_, warning_;
  std::optional<std::chrono::steady_clock::time_point> after_first_;  // the first step, which fetches memory and code
  double run_steps_ = 0, seconds_ = 0;                                // after it, of all runs
  std::thread thread_;
};

}  // namespace moescope
