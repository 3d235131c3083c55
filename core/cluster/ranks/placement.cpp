#include "core/cluster/ranks/placement.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <stdexcept>
#include <string>

#include "core/cluster/ranks/eplb.h"
#include "core/numerics/rng.h"

namespace moescope {
namespace {

Placement from_pairs(std::vector<std::pair<std::int32_t, std::int32_t>> expert_rank, int n_experts, int ranks) {
  std::ranges::sort(expert_rank);
  Placement placement;
  placement.ranks = ranks;
  placement.first_replica.assign(n_experts + 1, 0);
  for (const auto& [expert, rank] : expert_rank) {
    ++placement.first_replica[expert + 1];
    placement.replica_rank.push_back(rank);
  }
  std::partial_sum(placement.first_replica.begin(), placement.first_replica.end(), placement.first_replica.begin());
  return placement;
}

}  // namespace

Placement place_by_hand(std::span<const std::int32_t> rank_of_expert, int ranks) {
  Placement placement;
  placement.ranks = ranks;
  placement.first_replica.resize(rank_of_expert.size() + 1);
  std::iota(placement.first_replica.begin(), placement.first_replica.end(), 0);
  placement.replica_rank.assign(rank_of_expert.begin(), rank_of_expert.end());
  for ([[maybe_unused]] const std::int32_t rank : placement.replica_rank) assert(rank >= 0 && rank < ranks);
  return placement;
}

Placement place_contiguous(int n_experts, int ranks) {
  std::vector<std::int32_t> rank_of(n_experts);
  for (std::int64_t e = 0; e < n_experts; ++e) rank_of[e] = e * ranks / n_experts;
  return place_by_hand(rank_of, ranks);
}

Placement place_random(int n_experts, int ranks, std::int64_t seed) {
  const RandomStream stream(seed, "placement");
  std::vector<std::int32_t> rank_of = place_contiguous(n_experts, ranks).replica_rank;
  for (int e = n_experts - 1; e > 0; --e)
    std::swap(rank_of[e], rank_of[static_cast<std::size_t>(stream.uniform(e) * (e + 1))]);
  return place_by_hand(rank_of, ranks);
}

Placement place_balanced(std::span<const std::uint64_t> load_E, int ranks, const BalancerOptions& options) {
  const int n_experts = load_E.size();
  const int slots = options.slots_per_rank ? options.slots_per_rank : (n_experts + ranks - 1) / ranks;
  if (static_cast<std::int64_t>(slots) * ranks < n_experts)
    throw std::runtime_error(std::to_string(slots) + " expert slots on each of " + std::to_string(ranks) +
                             " ranks do not hold " + std::to_string(n_experts) + " experts");
  int nodes = ranks % options.ranks_per_node == 0 ? ranks / options.ranks_per_node : 1;
  if (options.n_groups < 1 || options.n_groups % nodes || n_experts % options.n_groups) nodes = 1;
  const std::vector<float> weights(load_E.begin(), load_E.end());
  const auto expert_of_slot =
      rebalance_experts(weights, {slots * ranks, nodes == 1 ? 1 : options.n_groups, nodes, ranks});
  std::vector<std::pair<std::int32_t, std::int32_t>> expert_rank;
  for (int slot = 0; slot < slots * ranks; ++slot) expert_rank.emplace_back(expert_of_slot[slot], slot / slots);
  return from_pairs(std::move(expert_rank), n_experts, ranks);
}

std::vector<double> rank_loads(const Placement& placement, std::span<const std::uint64_t> load_E) {
  std::vector<double> loads(placement.ranks);
  for (int e = 0; e < placement.n_experts(); ++e) {
    const int first = placement.first_replica[e], last = placement.first_replica[e + 1];
    for (int i = first; i < last; ++i)
      loads[placement.replica_rank[i]] += static_cast<double>(load_E[e]) / (last - first);
  }
  return loads;
}

}  // namespace moescope
