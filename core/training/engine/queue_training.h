// Groups of candidates in training, one after the other, on a thread of their own. Each group trains run A again in
// lock-step with its candidates, into a recording of its own; Baseline checks that run A is the same to the bit. Its
// state lies beside the recordings (queue_file.h).
//
// Every method may be called from any thread and returns at once, but for start() after cancel() and the destructor,
// which wait for the step in flight.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/training/engine/candidate_groups.h"

namespace moescope {

struct QueueStatus {
  bool running = false;   // false: cancelled, failed or done
  bool done = false;      // all groups have finished
  int group = 0;          // that trains, or that start() would begin with, from 0
  std::int64_t step = 0;  // next step of that group
  double share = 0;       // of the steps of all runs of all groups, finished groups and those taken of this one
  double seconds_left = kNoValue;  // by the speed of the steps since start(); kNoValue: no step was measured yet
  std::string error;               // why it ended before its time; empty: it did not
  std::string warning;             // what did not end it: a candidate's lost loss, a recording that ended; the last one
};

class QueueTraining {
 public:
  // `runs`: run A, then one or more candidates, that passed validate() and have names of their own. Every group takes
  // `steps` > 0 steps. Group g is recorded in path_of_group(recording, g); an empty path keeps it in memory only.
  QueueTraining(std::vector<RunConfig> runs, std::int64_t steps, std::string recording, Baseline baseline = {});
  // The queue of queue_file_of(recording), with the groups that its recordings hold. Reads these; `go_on` gets the
  // share of groups read and returns false to cancel, which returns nullptr. Throws std::runtime_error: no such queue,
  // recordings that are not of it, as finished_group().
  static std::unique_ptr<QueueTraining> take_up(const std::string& recording,
                                                const std::function<bool(double)>& go_on = {});
  ~QueueTraining();  // cancels

  // From the first group that has not finished, from its first step; its recording is written anew. Nothing if it runs
  // or is done.
  void start();
  void cancel();  // after the step in flight; finished groups stay

  QueueStatus status() const;
  std::int64_t steps() const { return steps_; }
  const std::string& recording() const { return recording_; }
  std::string kernels() const;  // that computed the finished groups; empty: not known, or none has finished
  // With the histories of groups that have finished and of the one that trains, which grow.
  std::vector<CandidateGroup> groups() const;

 private:
  void train_all();
  void settle();                  // the status between two starts; under the lock
  void save();                    // beside the recordings
  bool train(std::size_t place);  // false: cancelled
  void show_step(std::size_t place, std::int64_t taken, double run_steps, double seconds);
  std::size_t first_waiting() const;  // under the lock

  const std::int64_t steps_;
  const std::string recording_;
  Baseline baseline_;  // the thread's alone while it runs
  std::atomic<bool> cancelled_ = false;

  mutable std::mutex mutex_;  // of all below but the thread; held for moments
  std::vector<CandidateGroup> groups_;
  std::vector<bool> finished_;
  QueueStatus status_;
  std::thread thread_;
};

}  // namespace moescope
