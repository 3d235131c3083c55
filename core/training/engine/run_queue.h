// Many runs in training, in groups that train one after the other (run_groups.h), each with its own engine and
// recording. If there are enough threads, groups of a single run train side by side (threads.h), which changes no bit.
//
// Every method may be called from any thread. All return immediately except read_finished(), train(), start()
// after cancel(), and the destructor; the last two wait for the current step.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/config/run_config.h"
#include "core/training/engine/engine.h"
#include "core/training/engine/run_groups.h"

namespace moescope {

// The state of a queue of candidates beside its recordings, so that it can be continued after a restart of the program.
//
// TOML: `steps`, `finished_groups`, and the settings of each run as a [[run]]. The recordings determine what was
// trained (finished_group()); the number of finished groups is only for lists of queues, which do not read the
// recordings.

struct QueueState {
  std::vector<RunConfig> runs;  // run A, then its candidates
  std::int64_t steps = 0;       // steps of every group, at least 1
  int finished = 0;             // number of finished groups
};

inline constexpr const char* kQueueSuffix = ".queue";
// Returns "sweep.queue" for "sweep.moescope" (the path from which path_of_group() makes the recordings), and the
// reverse.
std::string queue_file_of(const std::string& recording);
std::string recording_of_queue(const std::string& queue_file);
// Returns "sweep.queue" for "sweep-2.moescope" if there is such a file; empty if the recording does not belong to a
// queue.
std::string queue_file_beside(const std::string& group_recording);

// Both throw std::runtime_error with file, line and key.
QueueState parse_queue(std::string_view text, std::string_view file_name);
QueueState load_queue(const std::string& path);
void save_queue(const std::string& path, const QueueState& state);  // throws std::runtime_error "PATH: why"

struct QueueStatus {
  bool running = false;            // false: cancelled, failed or done
  bool done = false;               // all groups have finished
  int finished = 0;                // number of finished groups
  int group = 0;                   // index of the group that trains or, if stopped, of the first that has not finished
  std::int64_t step = 0;           // next step of that group
  double share = 0;                // share of all steps of all runs that are done
  double seconds_left = kNoValue;  // estimate from the speed since start(); kNoValue: not measured yet
  std::string error;               // why the queue ended early; empty: it did not
  std::string warning;             // last problem that did not end it: a candidate's NaN loss, a recording that ended
};

class RunQueue {
 public:
  // Called after every step and every group, by one thread at a time; returns false to cancel.
  using GoOn = std::function<bool(const QueueStatus&)>;
  // Returns an observer of the group with this index; nullptr: no observer.
  using ObserverOf = std::function<std::unique_ptr<EngineObserver>(Engine&, std::size_t group)>;

  // `groups`: their runs must have passed validate(). `steps`: number of steps of every group. `recording`: path from
  // which path_of_group() makes the paths of the groups' recordings; the state of a queue of candidates
  // is written beside it. If it is empty, no state is written.
  RunQueue(std::vector<RunGroup> groups, std::int64_t steps, std::string recording = {});
  // Reads queue_file_of(recording) and the recordings of the finished groups, and returns the queue. `go_on` is called
  // with the share of groups that have been read and returns false to cancel; take_up() then returns nullptr. Throws
  // std::runtime_error if there is no such queue, or like finished_group() if recordings do not belong to it.
  static std::unique_ptr<RunQueue> take_up(const std::string& recording, const std::function<bool(double)>& go_on = {});
  ~RunQueue();  // cancels

  // Reads a group from its recording; returns false if the group has not finished. Must not be called during training.
  // Throws like finished_group().
  bool read_finished(std::size_t group);
  // Trains the groups that have not finished, from their first steps, and replaces their recordings. Returns true if
  // all groups have finished. If one fails, the others end and status().error gives the reason.
  bool train(const GoOn& go_on = {}, const ObserverOf& observer_of = {});
  void start();                         // train() in its own thread; does nothing if it is running or done
  void cancel() { cancelled_ = true; }  // after the current step; finished groups are kept

  QueueStatus status() const;
  std::int64_t steps() const { return steps_; }
  const std::string& recording() const { return recording_; }
  std::string kernels() const;  // kernels of the finished groups; empty: not known, or no finished group
  std::vector<RunGroup> groups() const;

 private:
  class Observer;
  bool is_of_single_runs() const;
  void begin();
  void work(const GoOn& go_on, const ObserverOf& observer_of);
  std::optional<std::size_t> take();  // index of the next group to train; nullopt if there is none or after cancel()
  void train_group(std::size_t place, const GoOn& go_on, const ObserverOf& observer_of);
  void require_success(std::size_t place, Engine& engine) const;
  void leave(std::size_t place, bool finished);
  void count_step(std::size_t place, std::int64_t steps_taken);
  void tell(const GoOn& go_on);
  void fail(std::size_t place, const std::string& reason);
  void warn(const std::string& text);
  void save();  // writes the queue file

  const std::int64_t steps_;
  const std::string recording_;
  Baseline baseline_;  // used by the thread that trains groups with a run A
  std::atomic<bool> cancelled_ = false;
  std::mutex telling_;

  mutable std::mutex mutex_;  // protects the members below, except the thread; locked briefly
  std::vector<RunGroup> groups_;
  std::vector<std::int64_t> steps_taken_;  // steps taken by each group
  std::size_t next_ = 0;                   // index of the first group that has not begun
  bool running_ = false;
  std::string error_, warning_;
  // End of the first step, which is slow because it loads memory and code.
  std::optional<std::chrono::steady_clock::time_point> after_first_;
  double run_steps_ = 0, seconds_ = 0;  // steps of all runs after that step, and their time
  std::thread thread_;
};

}  // namespace moescope
