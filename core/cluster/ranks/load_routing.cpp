#include "core/cluster/ranks/load_routing.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>

#include "core/cluster/ranks/draws.h"
#include "core/numerics/rng.h"

namespace moescope {
namespace {

// Number of random orders of the experts; each token uses one of them, because drawing an order for each token would
// take long.
constexpr int kOrders = 1024;

// Returns shares of tokens that sum to `count`, in proportion to `weights` and none above 1.
std::vector<double> inclusion(std::vector<double> weights, double count) {
  std::vector<bool> full(weights.size());
  for (;;) {
    double remaining_weight = 0, remaining_count = count;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (full[i])
        remaining_count -= 1;
      else
        remaining_weight += weights[i];
    }
    bool more = false;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (full[i] || weights[i] * remaining_count <= remaining_weight) continue;
      full[i] = more = true;
    }
    if (more) continue;
    for (std::size_t i = 0; i < weights.size(); ++i)
      weights[i] = full[i] ? 1 : remaining_weight > 0 ? weights[i] * remaining_count / remaining_weight : 0;
    return weights;
  }
}

// Gives experts without load a tiny load, because a token needs K different experts.
std::vector<double> positive(std::span<const double> load) {
  const double mean = std::accumulate(load.begin(), load.end(), 0.0) / load.size();
  std::vector<double> weights(load.begin(), load.end());
  for (double& weight : weights) weight = mean > 0 ? std::max(weight, 1e-6 * mean) : 1;
  return weights;
}

// Systematic sampling (Madow 1949): walks `order`, adds up shares, and takes each expert at which the sum passes a
// whole number plus a random start. The probability of each expert is exactly its share, and none is taken twice. If
// rounding leaves one of the `count` places empty, the first expert of `order` that is not yet taken fills it.
void take(std::span<const std::int32_t> order, std::span<const double> share, int count, double start,
          std::int32_t* chosen) {
  double sum = 0;
  int n = 0;
  for (const std::int32_t i : order) {
    sum += share[i];
    if (n < count && sum > n + start) chosen[n++] = i;
  }
  for (auto i = order.begin(); n < count && i != order.end(); ++i) {
    if (share[*i] > 0 && std::find(chosen, chosen + n, *i) == chosen + n) chosen[n++] = *i;
  }
}

// Returns the shares of the experts for a token that has drawn `groups`; experts of other groups get 0. Loads are
// divided by the probability of their group, `group_share`, so that over all tokens a group gets its load. All drawn
// groups then get equally many slots, except those that every token draws.
std::vector<double> shares_in_groups(std::span<const double> load, std::span<const double> group_share,
                                     std::span<const std::int32_t> groups, int top_k) {
  const std::size_t size = load.size() / group_share.size();
  std::vector<double> weights, share(load.size());
  for (const std::int32_t g : groups) {
    const double scale = 1 / group_share[g];
    for (std::size_t i = 0; i < size; ++i) weights.push_back(load[g * size + i] * scale);
  }
  weights = inclusion(std::move(weights), top_k);
  for (std::size_t i = 0; i < groups.size(); ++i) std::copy_n(&weights[i * size], size, &share[groups[i] * size]);
  return share;
}

void check(std::size_t n_experts, std::int64_t tokens, int top_k, int n_groups, int limited_groups) {
  const int experts = n_experts;
  const auto fail = [](const std::string& reason) { throw std::runtime_error("routing by load: " + reason); };
  if (tokens < 0 || top_k < 1 || top_k > experts)
    fail("top_k " + std::to_string(top_k) + " of " + std::to_string(experts) + " experts cannot be");
  if (limited_groups == 0) return;
  if (n_groups < 1 || experts % n_groups || limited_groups < 0 || limited_groups > std::min(n_groups, 64))
    fail(std::to_string(limited_groups) + " of " + std::to_string(n_groups) + " groups of " + std::to_string(experts) +
         " experts cannot be");
  if (limited_groups * (experts / n_groups) < top_k)
    fail("the groups of a token hold fewer than " + std::to_string(top_k) + " experts");
}

}  // namespace

std::vector<double> stretch_load(std::span<const std::uint32_t> tokens_per_expert, int n_experts, std::int64_t seed) {
  std::vector<double> sorted(tokens_per_expert.begin(), tokens_per_expert.end());
  std::sort(sorted.begin(), sorted.end());
  std::vector<double> load(n_experts, 1.0);
  if (sorted.empty() || sorted.back() == 0) return load;
  const double scale = static_cast<double>(sorted.size()) / n_experts;
  for (int i = 0; i < n_experts; ++i) {
    const double at = std::clamp((i + 0.5) * scale - 0.5, 0.0, static_cast<double>(sorted.size() - 1));
    const auto low = static_cast<std::size_t>(at);
    const std::size_t high = std::min(low + 1, sorted.size() - 1);
    load[i] = std::lerp(sorted[low], sorted[high], at - low);
  }
  const double mean = std::accumulate(load.begin(), load.end(), 0.0) / n_experts;
  for (double& u : load) u /= mean;
  RoutingDraws(seed, "load_routing").shuffle(load);
  return load;
}

std::vector<std::int32_t> route_by_load(std::span<const double> load_E, std::int64_t tokens, int top_k, int n_groups,
                                        int limited_groups, std::int64_t seed) {
  check(load_E.size(), tokens, top_k, n_groups, limited_groups);
  std::vector<std::int32_t> topk_TK(static_cast<std::size_t>(tokens) * top_k);
  RoutingDraws draws(seed, "load_routing");
  const std::vector<double> load = positive(load_E);
  std::vector<std::vector<std::int32_t>> orders;
  std::vector<std::int32_t> order = first_ids(load.size());
  for (int i = 0; i < kOrders; ++i) {
    draws.shuffle(order);
    orders.push_back(order);
  }
  const bool grouped = limited_groups > 0;
  std::vector<double> group_share(grouped ? n_groups : 0);
  for (std::size_t e = 0; grouped && e < load.size(); ++e) group_share[e / (load.size() / n_groups)] += load[e];
  group_share = inclusion(std::move(group_share), limited_groups);
  std::vector<double> share = inclusion(load, top_k);
  std::vector<std::int32_t> groups = first_ids(group_share.size()), drawn(limited_groups);
  for (auto at = topk_TK.begin(); at != topk_TK.end(); at += top_k) {
    if (grouped) {
      draws.shuffle(groups);
      take(groups, group_share, limited_groups, draws.uniform(), drawn.data());
      share = shares_in_groups(load, group_share, drawn, top_k);
    }
    const double start = draws.uniform();
    take(orders[draws.below(kOrders)], share, top_k, start, &*at);
  }
  return topk_TK;
}

}  // namespace moescope
