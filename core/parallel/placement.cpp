#include "core/parallel/placement.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <queue>
#include <stdexcept>
#include <string>

#include "core/numerics/rng.h"

namespace moescope {
namespace {

struct Replica {
  std::int32_t expert;
  double load;
};

// Each expert once, then the spare slots one by one to the expert with the heaviest replicas.
std::vector<Replica> replicate(std::span<const std::int32_t> experts, std::span<const std::uint64_t> load_E,
                               std::size_t slots) {
  std::vector<int> copies(experts.size(), 1);
  const auto share = [&](std::size_t i) { return static_cast<double>(load_E[experts[i]]) / copies[i]; };
  // Heaviest first, the lower expert among equals.
  const auto lighter = [](const std::pair<double, std::size_t>& a, const std::pair<double, std::size_t>& b) {
    return a.first != b.first ? a.first < b.first : a.second > b.second;
  };
  std::priority_queue<std::pair<double, std::size_t>, std::vector<std::pair<double, std::size_t>>, decltype(lighter)>
      by_share(lighter);
  for (std::size_t i = 0; i < experts.size(); ++i) by_share.emplace(share(i), i);
  for (std::size_t spare = experts.size(); spare < slots; ++spare) {
    const std::size_t heaviest = by_share.top().second;
    by_share.pop();
    ++copies[heaviest];
    by_share.emplace(share(heaviest), heaviest);
  }
  std::vector<Replica> replicas;
  for (std::size_t i = 0; i < experts.size(); ++i) replicas.insert(replicas.end(), copies[i], {experts[i], share(i)});
  return replicas;
}

struct Bin {
  double load = 0;
  int items = 0;
  std::vector<bool> holds;  // by expert
};

// Heaviest first, each to the lightest bin with room; a second replica of an expert in one bin only if there is no
// other room. Returns the bin of each item.
std::vector<int> pack(const std::vector<Replica>& items, int n_bins, int room) {
  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return items[a].load > items[b].load; });
  std::int32_t n_experts = 0;
  for (const Replica& item : items) n_experts = std::max(n_experts, item.expert + 1);
  std::vector<Bin> bins(n_bins, Bin{0, 0, std::vector<bool>(n_experts)});
  std::vector<int> bin_of(items.size());
  for (const std::size_t item : order) {
    int best = -1;
    bool best_repeats = true;
    for (int b = 0; b < n_bins; ++b) {
      if (bins[b].items >= room) continue;
      const bool repeats = bins[b].holds[items[item].expert];
      if (best >= 0 && (repeats != best_repeats ? repeats : bins[b].load >= bins[best].load)) continue;
      best = b;
      best_repeats = repeats;
    }
    bins[best].load += items[item].load;
    ++bins[best].items;
    bins[best].holds[items[item].expert] = true;
    bin_of[item] = best;
  }
  return bin_of;
}

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

// Whole groups to nodes, the same number to each. Returns the experts of each node.
std::vector<std::vector<std::int32_t>> experts_of_nodes(std::span<const std::uint64_t> load_E, int n_groups,
                                                        int nodes) {
  const int size = static_cast<int>(load_E.size()) / n_groups;
  std::vector<Replica> groups;
  for (int g = 0; g < n_groups; ++g) {
    const auto loads = load_E.subspan(static_cast<std::size_t>(g) * size, size);
    groups.push_back({g, static_cast<double>(std::accumulate(loads.begin(), loads.end(), std::uint64_t{0}))});
  }
  const std::vector<int> node_of = pack(groups, nodes, n_groups / nodes);
  std::vector<std::vector<std::int32_t>> experts(nodes);
  for (int g = 0; g < n_groups; ++g)
    for (int e = g * size; e < (g + 1) * size; ++e) experts[node_of[g]].push_back(e);
  return experts;
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
  for (std::int64_t e = 0; e < n_experts; ++e) rank_of[e] = static_cast<std::int32_t>(e * ranks / n_experts);
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
  const int n_experts = static_cast<int>(load_E.size());
  const int slots = options.slots_per_rank ? options.slots_per_rank : (n_experts + ranks - 1) / ranks;
  if (static_cast<std::int64_t>(slots) * ranks < n_experts)
    throw std::runtime_error(std::to_string(slots) + " expert slots on each of " + std::to_string(ranks) +
                             " ranks do not hold " + std::to_string(n_experts) + " experts");
  int nodes = ranks % options.ranks_per_node == 0 ? ranks / options.ranks_per_node : 1;
  if (options.n_groups < 1 || options.n_groups % nodes || n_experts % options.n_groups) nodes = 1;
  const int node_ranks = ranks / nodes;
  const auto experts = experts_of_nodes(load_E, nodes == 1 ? 1 : options.n_groups, nodes);
  std::vector<std::pair<std::int32_t, std::int32_t>> expert_rank;
  for (int node = 0; node < nodes; ++node) {
    const auto replicas = replicate(experts[node], load_E, static_cast<std::size_t>(slots) * node_ranks);
    const std::vector<int> rank_of = pack(replicas, node_ranks, slots);
    for (std::size_t i = 0; i < replicas.size(); ++i)
      expert_rank.emplace_back(replicas[i].expert, node * node_ranks + rank_of[i]);
  }
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
