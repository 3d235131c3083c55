// Compares number formats on a checkpoint in a thread of its own, on the texts of a run of it, which its recording
// names.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "core/checkpoints/ablation/precision_twins.h"
#include "core/checkpoints/text_sources.h"
#include "core/history/history.h"

namespace moescope {

class CheckpointTwins {
 public:
  // Starts at once. Throws std::runtime_error: the recording does not name the texts.
  CheckpointTwins(const History& run, Recipe recipe);
  ~CheckpointTwins();  // stops after the current pass

  bool over() const { return over_; }
  int passes() const { return of_; }  // 0: the model is being read
  int passes_done() const { return done_; }
  // Once it is over.
  const PrecisionScan& scan() const { return scan_; }
  const std::string& error() const { return error_; }  // empty: none

 private:
  void work(const std::stop_token& stop);

  std::string folder_;
  TextSources sources_;
  Recipe recipe_;
  PrecisionScan scan_;
  std::string error_;
  std::atomic<bool> over_ = false;
  std::atomic<int> done_ = 0, of_ = 0;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace moescope
