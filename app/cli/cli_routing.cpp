#include "app/cli/cli_routing.h"

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "app/cli/cli_reading.h"
#include "core/parallel/load_routing.h"
#include "core/recording/recording.h"

namespace moescope {

RecordedStep recorded_step(const std::string& path, int run, std::int64_t step) {
  const RecordingReader reader(path);
  print_missing(reader);
  const auto found = std::ranges::find(reader.runs(), run, &RunInfo::run);
  if (found == reader.runs().end()) throw std::runtime_error(path + ": has no run " + std::to_string(run));
  const auto history = reader.load(run);
  const auto frame = history->frame_at(step < 0 ? INT64_MAX : step);
  if (const std::int64_t last = history->steps().last; frame && step > last)
    throw std::runtime_error(path + ": ends with step " + std::to_string(last) + ", before step " +
                             std::to_string(step));
  if (!frame)
    throw std::runtime_error(path + ": has no step with router statistics" +
                             (step < 0 ? std::string() : " at or before step " + std::to_string(step)));
  return {*found, frame};
}

bool names_routing_file(const std::string& routing) {
  return routing.ends_with(".moescope") || std::filesystem::is_regular_file(routing);
}

RecordedLoad recorded_load(const LoadOptions& o) {
  const RecordedStep step = recorded_step(o.recording, o.run, o.step);
  const RouterFrame* chosen = nullptr;
  for (const RouterFrame& router : step.frame->routers) {
    const bool wanted = o.layer < 0 ? !chosen || router.max_vio > chosen->max_vio : router.layer == o.layer;
    if (wanted && !router.tokens_per_expert.empty()) chosen = &router;
  }
  if (!chosen)
    throw std::runtime_error(o.recording + ": has no tokens per expert of " +
                             (o.layer < 0 ? std::string("any layer") : "layer " + std::to_string(o.layer)) +
                             " at step " + std::to_string(step.frame->step));
  return {chosen->tokens_per_expert,
          "the load of layer " + std::to_string(chosen->layer) + (o.layer < 0 ? ", the most uneven one," : "") +
              " at step " + std::to_string(step.frame->step) + " of " + o.recording + " (" +
              std::to_string(chosen->tokens_per_expert.size()) + " experts, stretched to the model's)"};
}

std::vector<std::int32_t> route_by_recorded_load(const RecordedLoad& load, const ModelShape& shape, std::int64_t tokens,
                                                 bool node_limited, std::int64_t seed) {
  const int limited = node_limited ? static_cast<int>(shape.limited_groups) : 0;
  return route_by_load(stretch_load(load.tokens_per_expert, static_cast<int>(shape.n_experts), seed), tokens,
                       static_cast<int>(shape.top_k), static_cast<int>(shape.n_groups), limited, seed);
}

Placement placement_named(const PlacementOptions& o, std::span<const std::int32_t> topk_TK, const ModelShape& shape) {
  const int n_experts = static_cast<int>(shape.n_experts);
  if (o.slots > 0 && o.name != "balanced") throw std::runtime_error("--slots goes with --placement balanced");
  if (o.name == "contiguous") return place_contiguous(n_experts, o.ranks);
  if (o.name == "random") return place_random(n_experts, o.ranks, o.seed);
  if (o.name != "balanced")
    throw std::runtime_error("--placement is '" + o.name + "'; allowed: contiguous, random, balanced");
  std::vector<std::uint64_t> load(static_cast<std::size_t>(n_experts));
  for (const std::int32_t expert : topk_TK)
    if (expert >= 0) ++load[static_cast<std::size_t>(expert)];
  return place_balanced(load, o.ranks, {o.slots, std::max(1, static_cast<int>(shape.n_groups)), o.ranks_per_node});
}

}  // namespace moescope
