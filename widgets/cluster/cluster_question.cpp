#include "widgets/cluster/cluster_question.h"

#include <algorithm>
#include <stdexcept>

#include "core/cluster/ranks/routing_patterns.h"

namespace moescope {
namespace {

constexpr int kRanksPerNode = 8;
constexpr std::int64_t kTokens = 65536;  // enough that sampling changes max/mean of 32 ranks by less than 1 %

std::vector<std::int32_t> route(const ClusterQuestion& q, const ModelShape& shape) {
  const int top_k = to_int(shape.top_k), n_experts = to_int(shape.n_experts);
  if (q.routing == AskedRouting::live) {
    if (q.live_load.empty()) throw std::runtime_error("No open run has tokens per expert");
    return route_by_load(stretch_load(q.live_load, n_experts), kTokens, top_k, to_int(shape.n_groups));
  }
  return route_by_pattern({RoutingRule::round_robin}, kTokens, top_k, n_experts);
}

Placement place(const ClusterQuestion& q, const ModelShape& shape, const std::vector<std::int32_t>& topk) {
  const int n_experts = to_int(shape.n_experts);
  if (q.placement == AskedPlacement::contiguous) return place_contiguous(n_experts, q.ep);
  std::vector<std::uint64_t> load(n_experts);
  for (const std::int32_t expert : topk) ++load[expert];
  const int slots_per_rank = (n_experts + q.ep - 1) / q.ep + 1;  // one slot more than needed, for replicas
  return place_balanced(load, q.ep, {slots_per_rank, std::max(1, to_int(shape.n_groups)), kRanksPerNode});
}

void fill(const ClusterQuestion& q, ClusterAnswer& a) {
  StepConfig& config = a.config;
  config = published_b200_config(q.mxfp8, q.all_to_all);
  config.hardware = hardware_profile(q.hardware);
  config.payload = q.payload;
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
