#include "core/cluster/live_cost.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>

#include "core/cluster/ranks/load_routing.h"
#include "core/cluster/ranks/replication.h"
#include "core/cluster/ranks/routing_patterns.h"

namespace moescope {
namespace {

// Number of routed tokens. With this number, sampling changes max/mean of 32 ranks by less than 1 %.
constexpr std::int64_t kTokens = 65536;
constexpr int kRanksPerNode = 8;

using Routing = std::vector<std::int32_t>;

Placement balanced_placement(const Routing& topk, const ModelShape& shape, int ep) {
  std::vector<std::uint64_t> load(shape.n_experts);
  for (const std::int32_t expert : topk) ++load[expert];
  const int slots = static_cast<int>(shape.n_experts) / ep + 1;
  return place_balanced(load, ep, {slots, std::max(1, static_cast<int>(shape.n_groups)), kRanksPerNode});
}

Placement placement_of(const Routing& topk, const ModelShape& shape, const LiveCase& c) {
  return c.balanced ? balanced_placement(topk, shape, c.ep) : place_contiguous(shape.n_experts, c.ep);
}

RoutingTraffic traffic_of(const Routing& topk, const ModelShape& shape, const Placement& placement, AllToAll kind) {
  const int top_k = shape.top_k;
  const auto tokens = static_cast<std::int64_t>(topk.size()) / top_k;
  return routing_traffic(count_volumes(topk, top_k, placement, kRanksPerNode), tokens, kind);
}

class Costs {
 public:
  Costs(const StepConfig& config, Hypothesis hypothesis, std::span<const std::uint32_t> tokens_per_expert,
        std::int64_t seed)
      : config_(config),
        hypothesis_(hypothesis),
        parameters_(fit_to_published(hypothesis)),
        load_(stretch_load(tokens_per_expert, config.shape.n_experts, seed)),
        seed_(seed) {}

  LiveCost operator()(const LiveCase& c) {
    const ModelShape& shape = config_.shape;
    if (c.ep < 1 || shape.n_experts % c.ep)
      throw std::runtime_error("EP " + std::to_string(c.ep) + " does not divide the " +
                               std::to_string(shape.n_experts) + " experts");
    LiveCost cost;
    cost.live_case = c;
    StepConfig config = config_;
    config.all_to_all = c.all_to_all;
    config.payload = c.payload;
    const Routing& topk = routing(c.node_limited);
    const Placement placement = placement_of(topk, shape, c);
    cost.gradients_sent = gradients_sent(placement);
    config.traffic = cost.traffic = traffic_of(topk, shape, placement, c.all_to_all);
    cost.tokens_per_second = step_time(config, parameters_).tokens_per_second;
    cost.band = throughput_band(config, hypothesis_);
    const Placement in_order = place_contiguous(shape.n_experts, c.ep);
    config.traffic = traffic_of(forced_routing(), shape, in_order, c.all_to_all);
    cost.forced_tokens_per_second = step_time(config, parameters_).tokens_per_second;
    return cost;
  }

 private:
  const Routing& routing(bool node_limited) {
    Routing& topk = by_load_[node_limited];
    const ModelShape& shape = config_.shape;
    const int limited = node_limited ? static_cast<int>(shape.limited_groups) : 0;
    if (topk.empty()) topk = route_by_load(load_, kTokens, shape.top_k, shape.n_groups, limited, seed_);
    return topk;
  }

  const Routing& forced_routing() {
    if (forced_.empty())
      forced_ = route_by_pattern({RoutingRule::round_robin}, kTokens, config_.shape.top_k, config_.shape.n_experts);
    return forced_;
  }

  const StepConfig& config_;
  Hypothesis hypothesis_;
  StepParameters parameters_;
  std::vector<double> load_;
  std::int64_t seed_;
  std::map<bool, Routing> by_load_;
  Routing forced_;
};

}  // namespace

std::vector<LiveCost> live_costs(const StepConfig& config, Hypothesis hypothesis,
                                 std::span<const std::uint32_t> tokens_per_expert, std::span<const LiveCase> cases,
                                 std::int64_t seed) {
  Costs cost(config, hypothesis, tokens_per_expert, seed);
  std::vector<LiveCost> costs;
  for (const LiveCase& c : cases) costs.push_back(cost(c));
  return costs;
}

std::vector<LiveCase> live_cases(const StepConfig& config) {
  std::vector<LiveCase> cases;
  for (const int ep : possible_ep(config)) {
    const LiveCase plain{.ep = ep, .all_to_all = config.all_to_all};
    cases.insert(cases.end(), kLiveVariants, plain);
    LiveCase* of_ep = &cases[cases.size() - kLiveVariants];
    of_ep[1].node_limited = of_ep[4].node_limited = true;
    of_ep[2].balanced = of_ep[4].balanced = true;
    of_ep[3].payload = of_ep[4].payload = Payload::mxfp8;
  }
  return cases;
}

std::vector<int> possible_ep(const StepConfig& config) {
  std::vector<int> degrees;
  const int stage = config.gpus / config.pp;
  for (int ep = kRanksPerNode; ep <= std::min<std::int64_t>(stage, 256); ep *= 2) {
    if (stage % ep == 0 && config.shape.n_experts % ep == 0) degrees.push_back(ep);
  }
  return degrees;
}

}  // namespace moescope
