// More candidates than train side by side: moescope-cli train takes them in groups, each with run A and a recording of
// its own, and prints one table of outcomes. Groups that an earlier start finished are kept with --continue.
#pragma once

#include <string>
#include <vector>

#include "app/cli/train/cli_train_options.h"
#include "core/config/run_config.h"
#include "core/training/engine/candidate_groups.h"
#include "core/training/engine/outcomes.h"

namespace moescope {

struct QueuedGroup {
  TrainOptions options;                    // the queue's, but for its recording
  std::vector<RunConfig> runs;             // run A first
  std::string title;                       // "group 2 of 4"
  double later = 0;                        // work of the groups behind it, in groups of this size
  std::vector<HistoryPtr> histories = {};  // of `runs`, once it has finished
};

class TrainQueue {
 public:
  // With --continue reads the groups that are finished, and uses the kernels that computed them. Throws
  // std::runtime_error: options that do not go with a queue, recordings of another queue.
  TrainQueue(const TrainOptions& options, const std::vector<RunConfig>& runs);

  std::vector<QueuedGroup>& groups() { return groups_; }
  Baseline& baseline() { return baseline_; }
  bool done() const;
  std::vector<Outcome> outcomes() const;  // candidates of groups that did not finish wait

 private:
  std::vector<HistoryPtr> finished(const QueuedGroup& group);

  std::int64_t end_;
  std::vector<QueuedGroup> groups_;
  Baseline baseline_;
  bool kernels_chosen_ = false;
};

}  // namespace moescope
