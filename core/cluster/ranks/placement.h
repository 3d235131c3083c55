// The ranks that hold each expert.
//
// Legend: E experts, R ranks, S expert slots per rank. An expert may have several replicas, to which its tokens are
// sent in turn.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moescope {

struct Placement {
  int ranks = 0;
  std::vector<std::int32_t> first_replica;  // [E + 1]: replicas of e: [first_replica[e], first_replica[e + 1])
  std::vector<std::int32_t> replica_rank;   // [replicas] rank of each replica

  int n_experts() const { return static_cast<int>(first_replica.size()) - 1; }
  bool replicated() const { return replica_rank.size() > first_replica.size() - 1; }
};

// Places expert e on rank e R / E, rounded down. If E % R == 0, this is rank e / (E / R).
Placement place_contiguous(int n_experts, int ranks);
// Gives all ranks nearly the same number of experts, in a random order.
Placement place_random(int n_experts, int ranks, std::int64_t seed);
// Returns a given placement, for example one that was made by dragging in the window. rank_of_expert: [E], each in [0,
// R).
Placement place_by_hand(std::span<const std::int32_t> rank_of_expert, int ranks);

// place_balanced() places experts by EPLB (core/cluster/ranks/eplb.h), from the load of each expert. If the number of
// nodes divides the `n_groups` routing groups, all experts of a group are on one node; otherwise all ranks are one
// pool. `slots_per_rank` * R >= E. Throws std::runtime_error if the slots do not suffice.
struct BalancerOptions {
  int slots_per_rank = 0;  // 0: E / R rounded up, without replicas if R divides E
  int n_groups = 1;
  int ranks_per_node = 8;
};
Placement place_balanced(std::span<const std::uint64_t> load_E, int ranks, const BalancerOptions& options);

// Returns the load of each rank if every replica takes an equal share of its expert's load.
std::vector<double> rank_loads(const Placement& placement, std::span<const std::uint64_t> load_E);

}  // namespace moescope
