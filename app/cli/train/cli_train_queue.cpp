#include "app/cli/train/cli_train_queue.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "app/cli/train/cli_outcomes.h"
#include "core/numerics/kernels.h"
#include "core/training/engine/queue_file.h"

namespace moescope {
namespace {

void refuse_options(const TrainOptions& o, std::size_t runs) {
  const auto refuse = [&](const char* option) {
    throw std::runtime_error(std::string(option) + ": does not go with " + std::to_string(runs) +
                             " runs, which train in groups; up to 5 runs train together");
  };
  check_table_name(o.table);
  if (o.ep > 0) refuse("--ep");
  if (o.serve > 0) refuse("--serve");
  if (!o.jsonl.empty()) refuse("--jsonl");
  if (!o.checkpoint.empty()) refuse("--checkpoint");
  if (o.continues && o.out.empty()) throw std::runtime_error("--continue: needs --out, whose recordings it continues");
}

}  // namespace

TrainQueue::TrainQueue(const TrainOptions& options, const std::vector<RunConfig>& runs)
    : end_(options.has_steps ? options.steps : runs.front().optimizer.total_steps) {
  refuse_options(options, runs.size());
  const std::vector<std::vector<RunConfig>> groups = candidate_groups(runs);
  std::size_t behind = 0;  // runs of the groups behind
  for (std::size_t i = groups.size(); i-- > 0;) {
    const int number = static_cast<int>(i) + 1;
    QueuedGroup group{options, groups[i], "group " + std::to_string(number) + " of " + std::to_string(groups.size()),
                      static_cast<double>(behind) / static_cast<double>(groups[i].size())};
    group.options.out = path_of_group(options.out, number);
    if (options.continues) group.histories = finished(group);
    group.options.overwrite |= options.continues;  // what there is of it did not finish
    if (group.histories.empty()) behind += groups[i].size();
    groups_.insert(groups_.begin(), std::move(group));
  }
}

// Empty: it has not finished.
std::vector<HistoryPtr> TrainQueue::finished(const QueuedGroup& group) {
  try {
    std::vector<HistoryPtr> histories = finished_group(group.options.out, group.runs, end_, baseline_);
    if (!histories.empty() && !std::exchange(kernels_chosen_, true))
      use_recorded_kernels(histories.front()->info().kernels);
    return histories;
  } catch (const std::runtime_error& problem) {
    throw std::runtime_error(std::string("--continue: ") + problem.what() +
                             "; choose another --out, or give --overwrite in place of --continue");
  }
}

bool TrainQueue::done() const {
  return std::ranges::none_of(groups_, [](const QueuedGroup& group) { return group.histories.empty(); });
}

std::vector<Outcome> TrainQueue::outcomes() const {
  std::vector<CandidateGroup> groups;
  for (const QueuedGroup& group : groups_) groups.push_back({group.runs, group.histories});
  return group_outcomes(groups);
}

}  // namespace moescope
