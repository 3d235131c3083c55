#include "core/training/lab/candidate_groups.h"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

#include "core/training/lab/lock_step.h"

namespace moescope {

std::vector<std::vector<RunConfig>> candidate_groups(std::span<const RunConfig> runs) {
  constexpr std::size_t kBesideA = kMaxRuns - 1;
  std::vector<std::vector<RunConfig>> groups;
  for (std::size_t first = 1; first < runs.size(); first += kBesideA) {
    const auto candidates = runs.subspan(first, std::min(kBesideA, runs.size() - first));
    std::vector<RunConfig>& group = groups.emplace_back(1, runs.front());
    group.insert(group.end(), candidates.begin(), candidates.end());
  }
  return groups;
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
