#include "core/cluster/ranks/placement.h"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>
#include <utility>

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

// Packs items by falling weight, each into the lightest pack that has room; of equal items or packs, the first one.
// Returns the items of each pack in the order in which they were packed. With one item per pack, item i is in pack i.
std::vector<std::vector<std::int32_t>> packed(std::span<const float> weights, std::size_t packs) {
  const std::size_t room = weights.size() / packs;
  std::vector<std::int32_t> order(weights.size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<std::vector<std::int32_t>> items(packs);
  if (room == 1) {
    for (const std::int32_t i : order) items[size(i)] = {i};
    return items;
  }
  std::ranges::stable_sort(order, [&](std::int32_t a, std::int32_t b) { return weights[size(a)] > weights[size(b)]; });
  std::vector<float> filled(packs);
  for (const std::int32_t item : order) {
    std::size_t lightest = packs;
    for (std::size_t p = 0; p < packs; ++p)
      if (items[p].size() < room && (lightest == packs || filled[p] < filled[lightest])) lightest = p;
    items[lightest].push_back(item);
    filled[lightest] += weights[size(item)];
  }
  return items;
}

struct Replicas {
  std::vector<std::int32_t> expert;  // expert of each replica: every expert once, then additional ones
  std::vector<float> share;          // load of each replica
};

// Gives every spare slot to the expert whose replicas have the largest load, to the first of equals.
Replicas replicated(std::span<const float> load, std::size_t slots) {
  Replicas replicas;
  std::vector<float> copies(load.size(), 1), share(load.begin(), load.end());
  replicas.expert.resize(load.size());
  std::iota(replicas.expert.begin(), replicas.expert.end(), 0);
  while (replicas.expert.size() < slots) {
    const std::size_t heaviest = std::ranges::max_element(share) - share.begin();
    replicas.expert.push_back(to_int(heaviest));
    share[heaviest] = load[heaviest] / ++copies[heaviest];
  }
  for (const std::int32_t expert : replicas.expert) replicas.share.push_back(share[size(expert)]);
  return replicas;
}

// Returns the experts of each node: whole groups, equally many per node.
std::vector<std::vector<std::int32_t>> experts_by_node(std::span<const float> load, std::size_t groups,
                                                       std::size_t nodes) {
  const std::size_t width = load.size() / groups;
  std::vector<float> group_load(groups);
  for (std::size_t e = 0; e < load.size(); ++e) group_load[e / width] += load[e];
  std::vector<std::vector<std::int32_t>> experts(nodes);
  const auto groups_of = packed(group_load, nodes);
  for (std::size_t n = 0; n < nodes; ++n)
    for (const std::int32_t group : groups_of[n])
      for (std::size_t e = 0; e < width; ++e) experts[n].push_back(to_int(size(group) * width + e));
  return experts;
}

// Returns for each expert the ranks that hold it, ascending, each once.
std::vector<std::vector<std::int32_t>> ranks_of_experts(const Placement& placement) {
  std::vector<std::vector<std::int32_t>> ranks(size(placement.n_experts()));
  for (std::size_t e = 0; e < ranks.size(); ++e) {
    const auto begin = placement.replica_rank.begin();
    ranks[e].assign(begin + placement.first_replica[e], begin + placement.first_replica[e + 1]);
    std::ranges::sort(ranks[e]);
    ranks[e].erase(std::unique(ranks[e].begin(), ranks[e].end()), ranks[e].end());
  }
  return ranks;
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
  for (std::int64_t e = 0; e < n_experts; ++e) rank_of[e] = to_int(e * ranks / n_experts);
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
  const int n_experts = to_int(load_E.size());
  const int slots = options.slots_per_rank ? options.slots_per_rank : (n_experts + ranks - 1) / ranks;
  if (static_cast<std::int64_t>(slots) * ranks < n_experts)
    throw std::runtime_error(fmt::format("{} expert slots on each of {} ranks do not hold {} experts: {} are needed",
                                         slots, ranks, n_experts, (n_experts + ranks - 1) / ranks));
  int nodes = ranks % options.ranks_per_node == 0 ? ranks / options.ranks_per_node : 1;
  if (options.n_groups < 1 || options.n_groups % nodes || n_experts % options.n_groups) nodes = 1;
  const std::vector<float> weights(load_E.begin(), load_E.end());
  const auto expert_of_slot =
      rebalance_experts(weights, {slots * ranks, nodes == 1 ? 1 : options.n_groups, nodes, ranks});
  std::vector<std::pair<std::int32_t, std::int32_t>> expert_rank;
  for (int slot = 0; slot < slots * ranks; ++slot) expert_rank.emplace_back(expert_of_slot[slot], slot / slots);
  return from_pairs(std::move(expert_rank), n_experts, ranks);
}

Placement widened(const Placement& placement, int width) {
  Placement wide{placement.ranks, {0}, {}};
  for (int e = 0; e < placement.n_experts() * width; ++e) {
    const auto first = placement.replica_rank.begin();
    wide.replica_rank.insert(wide.replica_rank.end(), first + placement.first_replica[e / width],
                             first + placement.first_replica[e / width + 1]);
    wide.first_replica.push_back(to_int(wide.replica_rank.size()));
  }
  return wide;
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

double rank_imbalance(const Placement& placement, std::span<const std::uint64_t> load_E) {
  const std::vector<double> loads = rank_loads(placement, load_E);
  const double sum = std::accumulate(loads.begin(), loads.end(), 0.0);
  return sum > 0 ? *std::ranges::max_element(loads) * loads.size() / sum : 0;
}

std::vector<std::int32_t> experts_of_slots(const Placement& placement) {
  std::vector<std::int32_t> experts;
  for (int rank = 0; rank < placement.ranks; ++rank)
    for (int expert = 0; expert < placement.n_experts(); ++expert)
      for (int i = placement.first_replica[expert]; i < placement.first_replica[expert + 1]; ++i)
        if (placement.replica_rank[i] == rank) experts.push_back(expert);
  return experts;
}

std::string sglang_placement(const std::map<int, std::vector<std::int32_t>>& slots_by_layer, int layers,
                             int n_experts) {
  std::vector<std::int32_t> in_order(slots_by_layer.begin()->second.size());
  for (std::size_t slot = 0; slot < in_order.size(); ++slot) in_order[slot] = to_int(slot) % n_experts;
  nlohmann::json map = nlohmann::json::array();
  for (int layer = 0; layer < layers; ++layer)
    map.push_back(slots_by_layer.contains(layer) ? slots_by_layer.at(layer) : in_order);
  return nlohmann::json{{"physical_to_logical_map", map}}.dump() + '\n';
}

std::vector<std::int32_t> rebalance_experts(std::span<const float> load_E, const EplbShape& shape) {
  const bool by_node = shape.groups % shape.nodes == 0;
  const std::size_t nodes = by_node ? size(shape.nodes) : 1, groups = by_node ? size(shape.groups) : 1;
  assert(load_E.size() % groups == 0 && size(shape.slot_count) >= load_E.size() && shape.slot_count % shape.gpus == 0);
  std::vector<std::int32_t> expert_of_slot;
  for (const std::vector<std::int32_t>& experts : experts_by_node(load_E, groups, nodes)) {
    std::vector<float> load;
    for (const std::int32_t e : experts) load.push_back(load_E[size(e)]);
    const Replicas replicas = replicated(load, size(shape.slot_count) / nodes);
    for (const auto& on_gpu : packed(replicas.share, size(shape.gpus) / nodes))
      for (const std::int32_t replica : on_gpu) expert_of_slot.push_back(experts[size(replicas.expert[size(replica)])]);
  }
  return expert_of_slot;
}

void LoadPlanner::count_step(std::int64_t step, int replan_every, std::span<const std::uint32_t> tokens_per_expert) {
  load_since_plan.resize(tokens_per_expert.size());
  for (std::size_t e = 0; e < load_since_plan.size(); ++e) load_since_plan[e] += tokens_per_expert[e];
  if ((step + 1) % replan_every == 0) planned_of = std::exchange(load_since_plan, {});
}

int experts_sent(const Placement& from, const Placement& to) {
  assert(from.n_experts() == to.n_experts() && from.ranks == to.ranks);
  const auto before = ranks_of_experts(from), after = ranks_of_experts(to);
  int sent = 0;
  for (std::size_t e = 0; e < after.size(); ++e)
    for (const std::int32_t rank : after[e]) sent += !std::ranges::binary_search(before[e], rank);
  return sent;
}

int gradients_sent(const Placement& placement) {
  int sent = 0;
  for (const auto& ranks : ranks_of_experts(placement)) sent += to_int(ranks.size()) - 1;
  return sent;
}

}  // namespace moescope
