#include "core/cluster/ranks/eplb.h"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "core/numerics/size.h"

namespace moescope {
namespace {

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
    replicas.expert.push_back(heaviest);
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
      for (std::size_t e = 0; e < width; ++e) experts[n].push_back(size(group) * width + e);
  return experts;
}

}  // namespace

std::vector<std::int32_t> rebalance_experts(std::span<const float> load_E, const EplbShape& shape) {
  const bool by_node = shape.groups % shape.nodes == 0;
  const std::size_t nodes = by_node ? size(shape.nodes) : 1, groups = by_node ? size(shape.groups) : 1;
  assert(load_E.size() % groups == 0 && size(shape.slots) >= load_E.size() && shape.slots % shape.gpus == 0);
  std::vector<std::int32_t> expert_of_slot;
  for (const std::vector<std::int32_t>& experts : experts_by_node(load_E, groups, nodes)) {
    std::vector<float> load;
    for (const std::int32_t e : experts) load.push_back(load_E[size(e)]);
    const Replicas replicas = replicated(load, size(shape.slots) / nodes);
    for (const auto& on_gpu : packed(replicas.share, size(shape.gpus) / nodes))
      for (const std::int32_t replica : on_gpu) expert_of_slot.push_back(experts[size(replicas.expert[size(replica)])]);
  }
  return expert_of_slot;
}

}  // namespace moescope
