#include "core/model/moe/expert_placement.h"

#include <algorithm>

namespace moescope {

Placement place(const PlacementChoice& choice, const PlacementSite& site, int n_experts,
                std::span<const std::uint64_t> load_E) {
  if (choice.kind == PlacementChoice::Kind::random) return place_random(n_experts, site.ranks, site.layer + 1);
  if (choice.kind == PlacementChoice::Kind::balanced && !load_E.empty()) {
    const int slots = (n_experts + site.ranks - 1) / site.ranks + (choice.has_replicas ? 1 : 0);
    return place_balanced(load_E, site.ranks, {slots, std::max(1, site.n_groups), site.ranks_per_node});
  }
  const auto by_hand = choice.by_hand.find(site.layer);
  if (by_hand == choice.by_hand.end()) return place_contiguous(n_experts, site.ranks);
  return place_by_hand(by_hand->second, site.ranks);
}

}  // namespace moescope
