// The placement of a layer's experts on ranks by the setting parallel.placement.
//
// Legend: E experts.
#pragma once

#include <cstdint>
#include <span>

#include "core/cluster/ranks/placement.h"
#include "core/config/placement_choice.h"

namespace moescope {

struct PlacementSite {
  int layer = 0, ranks = 1, ranks_per_node = 8;
  int n_groups = 1;  // groups of the router
};
// Returns the placement of one layer. `load_E` is only used for "balanced", which calls place_balanced(). With
// replan_every it is the load from which the plan is made; empty before the first plan, when experts are contiguous.
Placement place(const PlacementChoice& choice, const PlacementSite& site, int n_experts,
                std::span<const std::uint64_t> load_E);

}  // namespace moescope
