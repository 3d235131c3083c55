#include "widgets/cluster/cluster_question.h"

#include <cmath>
#include <stdexcept>

#include "core/cluster/ranks/routing_patterns.h"
#include "core/model/moe/expert_placement.h"

namespace moescope {
namespace {

constexpr int kRanksPerNode = 8;
constexpr std::int64_t kTokens = 65536;  // enough that sampling changes max/mean of 32 ranks by less than 1 %

// Places the experts of the run if possible, else those of the model, for which a placement by hand is not known.
Placement place_experts(const ClusterQuestion& q, std::span<const std::uint64_t> load_E) {
  const int n_experts = to_int(load_E.size()), own_experts = to_int(q.live_load.size());
  const PlacementSite site{q.layer, q.ep, kRanksPerNode, 1};
  if (!has_own_ranks(q, n_experts)) return place({q.placement.kind, {}}, site, n_experts, load_E);
  const std::vector<std::uint64_t> own_load_E(q.live_load.begin(), q.live_load.end());
  return widened(place(q.placement, site, own_experts, own_load_E), n_experts / own_experts);
}

void fill(const ClusterQuestion& q, ClusterAnswer& a) {
  StepConfig& config = a.config;
  config = step_config(q);
  const int n_experts = to_int(config.shape.n_experts), top_k = to_int(config.shape.top_k);
  const bool is_live = q.routing == AskedRouting::live;
  if (is_live && q.live_load.empty()) throw std::runtime_error("No open run has tokens per expert");
  const std::vector<double> load = load_in_order(is_live ? q.live_load : std::vector<std::uint32_t>(), n_experts);
  const std::vector<std::int32_t> topk = is_live
                                             ? route_by_load(load, kTokens, top_k)
                                             : route_by_pattern({RoutingRule::round_robin}, kTokens, top_k, n_experts);
  std::vector<std::uint64_t> load_E;
  for (const double u : load) load_E.push_back(std::llround(u * kTokens));
  const Placement placement = place_experts(q, load_E);
  a.tokens = kTokens;
  a.fullest_rank = rank_imbalance(placement, load_E);
  a.volume = count_volumes(topk, top_k, placement, kRanksPerNode);
  config.traffic = routing_traffic(a.volume, a.tokens, q.all_to_all);
  a.parameters = fit_to_published(Hypothesis::h2);
  a.time = step_time(config, a.parameters);
  a.band = throughput_band(config, Hypothesis::h2);
}

}  // namespace

bool has_own_ranks(const ClusterQuestion& question, int n_experts) {
  const int own_experts = to_int(question.live_load.size());
  return own_experts > 0 && n_experts % own_experts == 0 && own_experts % question.ep == 0 &&
         placement_problem(question.placement, own_experts, question.ep).empty();
}

StepConfig step_config(const ClusterQuestion& question) {
  StepConfig config = published_b200_config(question.mxfp8, question.all_to_all);
  config.hardware = hardware_profile(question.hardware);
  config.payload = question.payload;
  return config;
}

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
