#include "core/training/engine/run_groups.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <stdexcept>

#include "core/config/config_difference.h"
#include "core/recording/recording.h"
#include "core/training/engine/lock_step.h"
#include "core/training/engine/retrain.h"

namespace moescope {

namespace {

constexpr std::size_t kRunsBesideA = 3;  // must not change: recordings of existing queues have groups of this size
static_assert(kRunsBesideA < kMaxRuns);
constexpr std::size_t kLongestNumbered = 60;  // a name has at most 64 characters

void require_same_runs(const std::string& path, const std::vector<RunInfo>& recorded, std::span<const RunConfig> runs) {
  const auto fail = [&](const std::string& reason) {
    throw std::runtime_error(path + " belongs to another comparison: " + reason);
  };
  if (recorded.size() != runs.size()) fail(fmt::format("it holds {} runs, not {}", recorded.size(), runs.size()));
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunConfig config = recorded_config(recorded[i]);
    if (config.name != runs[i].name) fail("it holds " + config.name + ", not " + runs[i].name);
    for (const ConfigDifference& found : difference(config, runs[i]))
      fail("in " + config.name + ' ' + found.setting.key() + " is " + found.a + ", not " + found.b);
  }
}

// True if the run has taken all steps, or ended with a NaN or infinite loss.
bool has_ended(const History& run, std::int64_t steps) {
  const StepRange recorded_steps = run.steps();
  if (recorded_steps.empty()) return steps == 0;
  return recorded_steps.last + 1 >= steps || has_lost_its_loss(run);
}

}  // namespace

std::vector<RunGroup> candidate_groups(std::span<const RunConfig> runs, const std::string& recording) {
  std::vector<RunGroup> groups;
  for (std::size_t first = 1; first < runs.size(); first += kRunsBesideA) {
    const auto candidates = runs.subspan(first, std::min(kRunsBesideA, runs.size() - first));
    RunGroup& group = groups.emplace_back();
    group.runs.push_back(runs.front());
    group.runs.insert(group.runs.end(), candidates.begin(), candidates.end());
    group.recording = path_of_group(recording, to_int(groups.size()));
  }
  return groups;
}

std::string path_of_group(const std::string& path, int number) {
  if (path.empty()) return {};
  const std::filesystem::path whole(path);
  return (whole.parent_path() / (fmt::format("{}-{}{}", whole.stem().string(), number, whole.extension().string())))
      .string();
}

std::vector<Outcome> group_outcomes(std::span<const RunGroup> groups) {
  if (groups.empty()) return {};
  HistoryPtr a;  // equal in every group
  for (const RunGroup& group : groups)
    if (!a && !group.histories.empty()) a = group.histories.front();
  std::vector<JudgedRun> runs = {{groups.front().runs.front(), a}};
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const RunGroup& group = groups[g];
    for (std::size_t i = 1; i < group.runs.size(); ++i)
      runs.push_back({group.runs[i], group.histories.empty() ? nullptr : group.histories[i], to_int(g) + 1});
  }
  return outcomes(runs);
}

std::string free_name(const std::string& base_name, std::span<const RunConfig> other_runs) {
  const auto is_taken = [&](const std::string& name) {
    return std::ranges::any_of(other_runs, [&](const RunConfig& config) { return config.name == name; });
  };
  std::string name = base_name;
  for (int n = 2; is_taken(name); ++n) name = fmt::format("{}-{}", base_name.substr(0, kLongestNumbered), n);
  return name;
}

void Baseline::check(const TelemetryFrame& frame_of_a) {
  const Step step{std::bit_cast<std::uint32_t>(frame_of_a.ce_loss), std::bit_cast<std::uint32_t>(frame_of_a.grad_norm)};
  const std::size_t place = frame_of_a.step;
  if (place > steps_.size()) throw std::runtime_error(fmt::format("run A lacks step {}", steps_.size()));
  if (place == steps_.size()) return steps_.push_back(step);
  if (steps_[place] == step) return;
  throw std::runtime_error(fmt::format(
      "run A differs from that of another group at step {}: loss {} against {}. The groups cannot be compared: they "
      "were trained with other kernels, other data or another version of the program; train all of them anew",
      place, frame_of_a.ce_loss, std::bit_cast<float>(steps_[place].loss)));
}

bool has_lost_its_loss(const History& run) {
  const StepRange recorded_steps = run.steps();
  return !recorded_steps.empty() && !std::isfinite(run.value_at(Metric::ce_loss, kWholeRun, recorded_steps.last));
}

std::vector<HistoryPtr> finished_group(const RunGroup& group, std::int64_t steps, Baseline& baseline) {
  const std::string& path = group.recording;
  if (!std::filesystem::exists(path)) return {};
  const RecordingReader recording(path);
  if (recording.runs().empty()) return {};
  require_same_runs(path, recording.runs(), group.runs);
  std::vector<HistoryPtr> histories;
  for (const RunInfo& info : recording.runs()) {
    histories.push_back(recording.load(info.run, {}, kQueueArrayBytes));
    if (!has_ended(*histories.back(), steps)) return {};
  }
  if (histories.front()->steps().last >= steps)
    throw std::runtime_error(
        fmt::format("{} holds {} steps, more than the {} to train", path, histories.front()->steps().last + 1, steps));
  recording.read(recording.runs().front().run, [&](const std::shared_ptr<const TelemetryFrame>& frame, double) {
    baseline.check(*frame);
    return true;
  });
  return histories;
}

}  // namespace moescope
