#include "core/parallel/load_routing.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>

#include "core/numerics/rng.h"
#include "core/parallel/draws.h"

namespace moescope {
namespace {

// Number of random orders of the experts; each token uses one of them, so that no order is drawn for each token.
constexpr int kOrders = 1024;

// Returns shares of tokens that sum to `count`, in proportion to `weights` and none above 1.
std::vector<double> inclusion(std::vector<double> weights, double count) {
  std::vector<bool> full(weights.size());
  for (;;) {
    double rest = 0, left = count;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (full[i])
        left -= 1;
      else
        rest += weights[i];
    }
    bool more = false;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (full[i] || weights[i] * left <= rest) continue;
      full[i] = more = true;
    }
    if (more) continue;
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = full[i] ? 1 : rest > 0 ? weights[i] * left / rest : 0;
    return weights;
  }
}

// Gives experts without load a tiny load, because a token needs K different experts.
std::vector<double> positive(std::span<const double> load) {
  const double mean = std::accumulate(load.begin(), load.end(), 0.0) / static_cast<double>(load.size());
  std::vector<double> weights(load.begin(), load.end());
  for (double& weight : weights) weight = mean > 0 ? std::max(weight, 1e-6 * mean) : 1;
  return weights;
}

// Systematic sampling (Madow 1949): walks `order`, adds up shares, and takes each expert at which the sum passes a
// whole number plus a random start. Each expert is taken with exactly its share, none twice. Rounding may leave the
// last of the `count` to be filled in.
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

// Random orders of the experts, drawn once: a token takes one of them.
class Orders {
 public:
  Orders(std::size_t n_experts, Draws& draws) {
    std::vector<std::int32_t> order = first_ids(n_experts);
    for (int i = 0; i < kOrders; ++i) {
      draws.shuffle(order);
      orders_.push_back(order);
    }
  }
  std::span<const std::int32_t> any(Draws& draws) const { return orders_[draws.below(kOrders)]; }

 private:
  std::vector<std::vector<std::int32_t>> orders_;
};

// Number of slots that a group gets when it is drawn, so that over all tokens it gets its load: equal for all groups
// except those that every token draws.
class GroupedRouting {
 public:
  GroupedRouting(std::span<const double> load, int top_k, int n_groups, int limited, Draws& draws)
      : load_(positive(load)),
        size_(static_cast<int>(load.size()) / n_groups),
        top_k_(top_k),
        limited_(limited),
        group_load_(sums()),
        group_share_(inclusion(group_load_, limited)),
        group_order_(first_ids(group_load_.size())),
        orders_(load.size(), draws),
        share_(load.size()) {}

  void route(Draws& draws, std::int32_t* chosen) {
    std::int32_t drawn[64];
    draws.shuffle(group_order_);
    take(group_order_, group_share_, limited_, draws.uniform(), drawn);
    std::vector<double> weights;
    for (int g = 0; g < limited_; ++g) {
      const double scale = 1 / group_share_[drawn[g]];
      for (int i = 0; i < size_; ++i) weights.push_back(load_[drawn[g] * size_ + i] * scale);
    }
    weights = inclusion(std::move(weights), top_k_);
    std::fill(share_.begin(), share_.end(), 0);
    for (int g = 0; g < limited_; ++g) std::copy_n(&weights[g * size_], size_, &share_[drawn[g] * size_]);
    take(orders_.any(draws), share_, top_k_, draws.uniform(), chosen);
  }

 private:
  std::vector<double> sums() const {
    std::vector<double> sums(load_.size() / size_);
    for (std::size_t e = 0; e < load_.size(); ++e) sums[e / size_] += load_[e];
    return sums;
  }

  std::vector<double> load_;
  int size_, top_k_, limited_;
  std::vector<double> group_load_, group_share_;
  std::vector<std::int32_t> group_order_;
  Orders orders_;
  std::vector<double> share_;  // shares of the experts in the drawn groups
};

void check(std::size_t n_experts, std::int64_t tokens, int top_k, int n_groups, int limited_groups) {
  const int experts = static_cast<int>(n_experts);
  const auto fail = [](const std::string& why) { throw std::runtime_error("routing by load: " + why); };
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
    load[i] = std::lerp(sorted[low], sorted[high], at - static_cast<double>(low));
  }
  const double mean = std::accumulate(load.begin(), load.end(), 0.0) / n_experts;
  for (double& u : load) u /= mean;
  Draws(seed, "load_routing").shuffle(load);
  return load;
}

std::vector<std::int32_t> route_by_load(std::span<const double> load_E, std::int64_t tokens, int top_k, int n_groups,
                                        int limited_groups, std::int64_t seed) {
  check(load_E.size(), tokens, top_k, n_groups, limited_groups);
  std::vector<std::int32_t> topk_TK(static_cast<std::size_t>(tokens) * top_k);
  Draws draws(seed, "load_routing");
  if (limited_groups > 0) {
    GroupedRouting routing(load_E, top_k, n_groups, limited_groups, draws);
    for (auto at = topk_TK.begin(); at != topk_TK.end(); at += top_k) routing.route(draws, &*at);
    return topk_TK;
  }
  const std::vector<double> share = inclusion(positive(load_E), top_k);
  const Orders orders(load_E.size(), draws);
  for (auto at = topk_TK.begin(); at != topk_TK.end(); at += top_k) {
    take(orders.any(draws), share, top_k, draws.uniform(), &*at);
  }
  return topk_TK;
}

}  // namespace moescope
