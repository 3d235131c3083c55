// Trainings that claims and hand-ins ask for. Equal ones are computed once.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "core/config/run_config.h"
#include "core/findings/comparison/gap_track.h"

namespace moescope {

struct PooledRun {
  RunConfig config;
  std::int64_t steps = 0;
  HistoryPtr history = {};   // nullptr unless all steps were taken with finite losses
  std::string trouble = {};  // why there is no history; empty before train()
  bool failed = false;       // a step failed; otherwise the loss became NaN or infinite
};

class RunPool {
 public:
  // `array_bytes`: limit of the arrays in the history of each run.
  explicit RunPool(std::size_t array_bytes) : array_bytes_(array_bytes) {}

  // The name of a run does not matter.
  void add(const RunConfig& config, std::int64_t steps);
  const PooledRun& find(const RunConfig& config, std::int64_t steps) const;  // must have been added

  // Trains all runs, each on a single thread, as many at a time as there are threads: for small models this is faster
  // than parallel loops within a run. All threads are used, so no other parallel loop may run at the same time.
  // `progress` is called with the number of finished runs and of all runs, by one thread at a time. `is_wanted` is
  // asked before each step, by several threads; after it has returned false, no run that is not finished has a history.
  void train(
      const std::function<void(int ended, int all)>& progress,
      const std::function<bool()>& is_wanted = [] { return true; });

  std::size_t size() const { return runs_.size(); }
  // Throws std::runtime_error for a run of which a step failed.
  void require_no_failure() const;

 private:
  std::size_t array_bytes_;
  std::map<std::string, PooledRun> runs_;  // by steps and settings
};

}  // namespace moescope
