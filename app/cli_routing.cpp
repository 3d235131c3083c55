#include "app/cli_routing.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "core/telemetry/recording.h"

namespace moescope {

RecordedStep recorded_step(const std::string& path, int run, std::int64_t step) {
  const RecordingReader reader(path);
  const auto found = std::ranges::find(reader.runs(), run, &RunInfo::run);
  if (found == reader.runs().end()) throw std::runtime_error(path + ": has no run " + std::to_string(run));
  const auto frame = reader.load(run)->frame_at(step < 0 ? INT64_MAX : step);
  if (!frame)
    throw std::runtime_error(path + ": has no step with router statistics" +
                             (step < 0 ? std::string() : " at or before step " + std::to_string(step)));
  return {*found, frame};
}

Placement placement_named(const PlacementOptions& o, std::span<const std::int32_t> topk_TK, const ModelShape& shape) {
  const int n_experts = static_cast<int>(shape.n_experts);
  if (o.name == "contiguous") return place_contiguous(n_experts, o.ranks);
  if (o.name == "random") return place_random(n_experts, o.ranks, o.seed);
  if (o.name != "balanced")
    throw std::runtime_error("--placement is '" + o.name + "'; allowed: contiguous, random, balanced");
  std::vector<std::uint64_t> load(static_cast<std::size_t>(n_experts));
  for (const std::int32_t expert : topk_TK) ++load[static_cast<std::size_t>(expert)];
  return place_balanced(load, o.ranks, {o.slots, std::max(1, static_cast<int>(shape.n_groups)), o.ranks_per_node});
}

}  // namespace moescope
