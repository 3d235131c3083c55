#include "widgets/cluster/cluster_question.h"

#include <fmt/core.h>

#include <algorithm>
#include <stdexcept>

#include "core/cluster/ranks/routing_patterns.h"

namespace moescope {
namespace {

constexpr int kRanksPerNode = 8;
constexpr const char* kPatterns[] = {"forced", "uniform", "grouped", "zipf:0.6"};  // in the order of AskedRouting
constexpr std::int64_t kTokens = 65536;  // enough that sampling changes max/mean of 32 ranks by less than 1 %

std::vector<std::int32_t> route(const ClusterQuestion& q, const ModelShape& shape) {
  const int top_k = to_int(shape.top_k), n_experts = to_int(shape.n_experts);
  if (q.routing == AskedRouting::live) {
    if (q.live_load.empty()) throw std::runtime_error("No open run has tokens per expert");
    return route_by_load(stretch_load(q.live_load, n_experts), kTokens, top_k, to_int(shape.n_groups));
  }
  RoutingPattern groups;
  if (shape.n_groups) groups = {{}, to_int(shape.n_groups), to_int(shape.limited_groups)};
  return route_by_pattern(parse_routing_pattern(kPatterns[static_cast<int>(q.routing)], groups), kTokens, top_k,
                          n_experts);
}

Placement place(const ClusterQuestion& q, const ModelShape& shape, const std::vector<std::int32_t>& topk) {
  const int n_experts = to_int(shape.n_experts);
  if (q.placement == AskedPlacement::contiguous) return place_contiguous(n_experts, q.ep);
  if (q.placement == AskedPlacement::random) return place_random(n_experts, q.ep, 1);
  std::vector<std::uint64_t> load(n_experts);
  for (const std::int32_t expert : topk) ++load[expert];
  const int slots_per_rank = (n_experts + q.ep - 1) / q.ep + 1;  // one slot more than needed, for replicas
  return place_balanced(load, q.ep, {slots_per_rank, std::max(1, to_int(shape.n_groups)), kRanksPerNode});
}

void fill(const ClusterQuestion& q, ClusterAnswer& a) {
  StepConfig& config = a.config;
  config.shape = model_shape(q.model);
  config.hardware = hardware_profile(q.hardware);
  config.mxfp8 = q.mxfp8;
  config.all_to_all = q.all_to_all;
  config.payload = q.payload;
  const bool large = q.model == "671B";
  config.tp = config.pp = config.virtual_stages = large ? 2 : 1;
  config.microbatches = large ? 64 : 1;
  if (config.shape.n_experts % q.ep)
    throw std::runtime_error(fmt::format("EP {} does not divide the {} experts", q.ep, config.shape.n_experts));
  const std::vector<std::int32_t> topk = route(q, config.shape);
  a.tokens = kTokens;
  a.volume = count_volumes(topk, to_int(config.shape.top_k), place(q, config.shape, topk), kRanksPerNode);
  config.traffic = routing_traffic(a.volume, a.tokens, q.all_to_all);
  a.parameters = fit_to_published(Hypothesis::h2);
  a.time = step_time(config, a.parameters);
  a.band = throughput_band(config, Hypothesis::h2);
}

}  // namespace

ClusterAnswer answer(const ClusterQuestion& question) {
  ClusterAnswer result;
  try {
    fill(question, result);
  } catch (const std::runtime_error& e) {
    result.problem = e.what();
  }
  return result;
}

}  // namespace moescope
