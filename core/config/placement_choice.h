// The value of the setting parallel.placement: which expert is on which rank.
//
// Legend: E experts. "contiguous"; "random" (one shuffle per layer, equal in every run); "balanced" (planned from the
// step's own load, with one more expert slot per rank for replicas); "balanced:N" (planned every N steps from the load
// of the N steps before); "packed:N" (the same without replicas); or by hand, a list of layers with the rank of each
// expert: "1:0,0,1,1;2:1,1,0,0". Layers that are not named are contiguous.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace moescope {

struct PlacementChoice {
  enum class Kind { contiguous, random, balanced, by_hand };
  Kind kind = Kind::contiguous;
  std::map<int, std::vector<std::int32_t>> by_hand;  // layer -> rank of each expert, [E]
  int replan_every = 0;      // steps between two plans of "balanced"; 0: each step is placed by its own load
  bool has_replicas = true;  // of "balanced": one more expert slot per rank
  bool operator==(const PlacementChoice&) const = default;
};

// Parses a value of the setting. Throws std::runtime_error that names the allowed values.
PlacementChoice parse_placement_choice(std::string_view text);
std::string placement_choice_text(const PlacementChoice& choice);  // parses to an equal choice
// Returns why the choice is impossible with these numbers of experts and ranks; empty if it is possible.
std::string placement_problem(const PlacementChoice& choice, int n_experts, int ranks);

}  // namespace moescope
