#include "app/cli/train/cli_train_queue.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "app/cli/train/cli_outcomes.h"
#include "core/numerics/kernels.h"
#include "core/telemetry/recording/recording.h"
#include "core/training/recorded_run.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

void refuse_options(const TrainOptions& o, std::size_t runs) {
  const auto refuse = [&](const char* option) {
    throw std::runtime_error(std::string(option) + ": does not go with " + std::to_string(runs) +
                             " runs, which train in groups; up to 4 runs train together");
  };
  check_table_name(o.table);
  if (o.ep > 0) refuse("--ep");
  if (o.serve > 0) refuse("--serve");
  if (!o.jsonl.empty()) refuse("--jsonl");
  if (!o.checkpoint.empty()) refuse("--checkpoint");
  if (o.continues && o.out.empty()) throw std::runtime_error("--continue: needs --out, whose recordings it continues");
}

void require_same_runs(const std::string& path, const std::vector<RunInfo>& recorded,
                       const std::vector<RunConfig>& runs) {
  const auto fail = [&](const std::string& why) {
    throw std::runtime_error("--continue: " + path + " is of another comparison: " + why +
                             "; choose another --out, or give --overwrite in place of --continue");
  };
  if (recorded.size() != runs.size())
    fail("it holds " + std::to_string(recorded.size()) + " runs, not " + std::to_string(runs.size()));
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunConfig config = recorded_config(recorded[i]);
    if (config.name != runs[i].name) fail("it holds " + config.name + ", not " + runs[i].name);
    for (const ConfigDifference& found : difference(config, runs[i]))
      fail("in " + config.name + ' ' + found.key + " is " + found.a + ", not " + found.b);
  }
}

// A run whose loss was lost ended there.
bool has_ended(const History& run, std::int64_t end) {
  const StepRange steps = run.steps();
  if (steps.empty()) return end == 0;
  return steps.last + 1 >= end || !std::isfinite(run.value_at(Metric::ce_loss, kWholeRun, steps.last));
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
  const std::string& path = group.options.out;
  if (!fs::exists(path)) return {};
  const RecordingReader recording(path);
  if (recording.runs().empty()) return {};
  require_same_runs(path, recording.runs(), group.runs);
  std::vector<HistoryPtr> histories;
  for (const RunInfo& info : recording.runs()) {
    histories.push_back(recording.load(info.run, {}, kQueueArrayBytes));
    if (!has_ended(*histories.back(), end_)) return {};
  }
  if (histories.front()->steps().last >= end_)
    throw std::runtime_error("--continue: " + path + " holds " + std::to_string(histories.front()->steps().last + 1) +
                             " steps, more than the " + std::to_string(end_) + " to train");
  if (!std::exchange(kernels_chosen_, true)) use_recorded_kernels(recording.runs().front().kernels);
  recording.read(recording.runs().front().run, [&](const std::shared_ptr<const TelemetryFrame>& frame, double) {
    baseline_.check(*frame);
    return true;
  });
  return histories;
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
