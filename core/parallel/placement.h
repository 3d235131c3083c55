// Which ranks hold which expert.
//
// Legend: E experts, R ranks, S expert slots a rank. An expert may have several replicas; its tokens take turns.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moescope {

struct Placement {
  int ranks = 0;
  std::vector<std::int32_t>
      first_replica;                       // [E + 1]: replicas of expert e are [first_replica[e], first_replica[e + 1])
  std::vector<std::int32_t> replica_rank;  // [replicas] the rank of each

  int n_experts() const { return static_cast<int>(first_replica.size()) - 1; }
  bool replicated() const { return replica_rank.size() > first_replica.size() - 1; }
};

// Expert e on rank e R / E: where E % R == 0, e / (E / R).
Placement place_contiguous(int n_experts, int ranks);
// The same number of experts a rank (as nearly as can be), shuffled.
Placement place_random(int n_experts, int ranks, std::int64_t seed);
// Any placement, as made by dragging in the window: rank_of_expert [E], each in [0, R).
Placement place_by_hand(std::span<const std::int32_t> rank_of_expert, int ranks);

// By EPLB (core/parallel/eplb.h), from the load of each expert. Where `n_groups` routing groups divide over the nodes,
// a group's traffic stays on its node; otherwise all ranks are one pool. `slots_per_rank` * R >= E. Throws
// std::runtime_error when slots do not suffice.
struct BalancerOptions {
  int slots_per_rank = 0;  // 0: E / R rounded up, no replicas where that divides
  int n_groups = 1;
  int ranks_per_node = 8;
};
Placement place_balanced(std::span<const std::uint64_t> load_E, int ranks, const BalancerOptions& options);

// Load of each rank when every replica takes an equal share of its expert's.
std::vector<double> rank_loads(const Placement& placement, std::span<const std::uint64_t> load_E);

}  // namespace moescope
