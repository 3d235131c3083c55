#include "core/training/engine/candidate_groups.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "core/training/engine/lock_step.h"

namespace moescope {

namespace {

constexpr std::size_t kBesideA = 3;  // queue files name groups of so many, which are recorded already
static_assert(kBesideA < kMaxRuns);

}  // namespace

std::vector<std::vector<RunConfig>> candidate_groups(std::span<const RunConfig> runs) {
  std::vector<std::vector<RunConfig>> groups;
  for (std::size_t first = 1; first < runs.size(); first += kBesideA) {
    const auto candidates = runs.subspan(first, std::min(kBesideA, runs.size() - first));
    std::vector<RunConfig>& group = groups.emplace_back(1, runs.front());
    group.insert(group.end(), candidates.begin(), candidates.end());
  }
  return groups;
}

std::string path_of_group(const std::string& path, int number) {
  if (path.empty()) return {};
  const std::filesystem::path whole(path);
  return (whole.parent_path() / (whole.stem().string() + '-' + std::to_string(number) + whole.extension().string()))
      .string();
}

std::vector<Outcome> group_outcomes(std::span<const CandidateGroup> groups) {
  if (groups.empty()) return {};
  HistoryPtr a;  // the same in every group
  for (const CandidateGroup& group : groups)
    if (!a && !group.histories.empty()) a = group.histories.front();
  std::vector<JudgedRun> runs = {{groups.front().runs.front(), a}};
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const CandidateGroup& group = groups[g];
    for (std::size_t i = 1; i < group.runs.size(); ++i)
      runs.push_back({group.runs[i], group.histories.empty() ? nullptr : group.histories[i], static_cast<int>(g) + 1});
  }
  return outcomes(runs);
}

std::string free_name(const std::string& wanted, std::span<const RunConfig> taken) {
  const auto is_taken = [&](const std::string& name) {
    return std::ranges::any_of(taken, [&](const RunConfig& config) { return config.name == name; });
  };
  std::string name = wanted;
  for (int n = 2; is_taken(name); ++n) name = wanted + '-' + std::to_string(n);
  return name;
}

void Baseline::check(const TelemetryFrame& frame_of_a) {
  const Step step{std::bit_cast<std::uint32_t>(frame_of_a.ce_loss), std::bit_cast<std::uint32_t>(frame_of_a.grad_norm)};
  const auto place = static_cast<std::size_t>(frame_of_a.step);
  if (place > steps_.size()) throw std::runtime_error("run A lacks step " + std::to_string(steps_.size()));
  if (place == steps_.size()) return steps_.push_back(step);
  if (steps_[place] == step) return;
  throw std::runtime_error("run A differs from that of another group at step " + std::to_string(place) + ": loss " +
                           std::to_string(frame_of_a.ce_loss) + " against " +
                           std::to_string(std::bit_cast<float>(steps_[place].loss)) +
                           ". The groups cannot be compared: they were trained with other kernels, other data or "
                           "another version of the program; train all of them anew");
}

}  // namespace moescope
