// The value of the setting parallel.placement: which expert is on which rank.
//
// Legend: E experts, R ranks. "contiguous"; "random" (one shuffle per layer, equal in every run); "balanced"
// (place_balanced() from the step's own load, with one more expert slot per rank for replicas); "balanced:N"
// (place_balanced() from the load of N earlier steps, planned every N steps: replication.h); or by hand, a list of
// layers with the rank of each expert: "1:0,0,1,1;2:1,1,0,0". Layers that are not named are contiguous.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/parallel/placement.h"

namespace moescope {

struct PlacementChoice {
  enum class Kind { contiguous, random, balanced, by_hand };
  Kind kind = Kind::contiguous;
  std::map<int, std::vector<std::int32_t>> by_hand;  // layer -> rank of each expert, [E]
  int replan_every = 0;  // steps between two plans of "balanced"; 0: each step is placed by its own load
  bool operator==(const PlacementChoice&) const = default;
};

// Parses a value of the setting. Throws std::runtime_error that names the allowed values.
PlacementChoice parse_placement_choice(std::string_view text);
std::string placement_choice_text(const PlacementChoice& choice);  // parses to an equal choice
// Returns why the choice is impossible with these numbers of experts and ranks; empty if it is possible.
std::string placement_problem(const PlacementChoice& choice, int n_experts, int ranks);

struct PlacementSite {
  int layer = 0, ranks = 1, ranks_per_node = 8;
  int n_groups = 1;  // groups of the router
};
// Returns the placement of one layer. `load_E` is only used for "balanced". With replan_every it is the load from which
// the plan is made; empty before the first plan, when experts are contiguous.
Placement place(const PlacementChoice& choice, const PlacementSite& site, int n_experts,
                std::span<const std::uint64_t> load_E);

}  // namespace moescope
