// The value of the setting parallel.placement: which expert is on which rank.
//
// Legend: E experts, R ranks. "contiguous"; "random" (the same shuffle for every run; another for every layer);
// "balanced" (place_balanced() from the step's own load, with one more expert slot a rank for replicas); "balanced:N"
// (the same from the load of N earlier steps, planned every N steps: replication.h); or by hand, a list of layers with
// the rank of each expert: "1:0,0,1,1;2:1,1,0,0". Layers that are not named are contiguous.
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
  std::map<int, std::vector<std::int32_t>> by_hand;  // [layer]: rank of expert e
  int replan_every = 0;                              // of "balanced", steps; 0: each step by its own load
  bool operator==(const PlacementChoice&) const = default;
};

// Throws std::runtime_error naming what is allowed.
PlacementChoice parse_placement_choice(std::string_view text);
std::string placement_choice_text(const PlacementChoice& choice);  // parses to the same
// Why the choice is impossible with so many experts and ranks; empty: it is possible.
std::string placement_problem(const PlacementChoice& choice, int n_experts, int ranks);

struct PlacementSite {
  int layer = 0, ranks = 1, ranks_per_node = 8;
  int n_groups = 1;  // of the router
};
// `load_E`: only used for "balanced"; with replan_every the one that the plan is made of, empty before the first plan.
Placement place(const PlacementChoice& choice, const PlacementSite& site, int n_experts,
                std::span<const std::uint64_t> load_E);

}  // namespace moescope
