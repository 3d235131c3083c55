// Measures a model in its own thread: a checkpoint with the texts of a run of it, which the recording of that run
// names, or the weights of a run of this program before some of its steps, with the run's held-out text.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/checkpoints/ablation/scans.h"
#include "core/checkpoints/text_sources.h"
#include "core/recording/history/history.h"
#include "core/training/engine/retrain.h"

namespace moescope {

class CheckpointScan {
 public:
  using Progress = std::function<bool(int done, int total)>;  // counts passes; returns false to stop
  // Called in the thread, once for each step. May throw std::exception.
  using Measure = std::function<void(CheckpointModel& model, const std::vector<LabelledText>& texts,
                                     const ComparedTexts& which, const Progress& progress)>;
  // Measures a checkpoint. Both constructors start the thread; the destructor stops it after the current pass or step.
  // Throws std::runtime_error if the recording does not name the texts.
  CheckpointScan(const History& run, Measure measure);
  // Measures a run, of which a copy trains up to the last of the ascending `steps`. `plan`: of the first.
  CheckpointScan(RecomputePlan plan, std::vector<std::int64_t> steps, Measure measure);

  bool hasEnded() const { return has_ended_; }
  int passes() const { return passes_; }                 // 0: the model is being read, or the copy trains
  std::int64_t next_step() const { return next_step_; }  // next step of the copy
  int passes_done() const { return done_; }
  int measured() const { return measured_; }           // calls of Measure that have returned
  const std::string& error() const { return error_; }  // call once it is over; empty if there was no error

 private:
  void measureRun(const RecomputePlan& plan, const std::vector<std::int64_t>& steps, const std::stop_token& stop);
  void measure(CheckpointModel& model, const std::vector<LabelledText>& texts, Index length,
               const std::stop_token& stop);  // `length`: tokens of a piece
  void start(std::function<void(const std::stop_token&)> work);

  Measure measure_;
  std::string error_;
  std::atomic<bool> has_ended_ = false;
  std::atomic<int> done_ = 0, passes_ = 0, measured_ = 0;
  std::atomic<std::int64_t> next_step_ = 0;
  std::jthread thread_;  // last, since it uses the other members
};

}  // namespace moescope
