// The ranks that hold each expert.
//
// Legend: E experts, R ranks, S expert slots per rank. An expert may have several replicas, to which its tokens are
// sent in turn.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/numerics/index.h"

namespace moescope {

struct Placement {
  int ranks = 0;
  std::vector<std::int32_t> first_replica;  // [E + 1]: replicas of e: [first_replica[e], first_replica[e + 1])
  std::vector<std::int32_t> replica_rank;   // [replicas] rank of each replica

  int n_experts() const { return to_int(first_replica.size()) - 1; }
  bool replicated() const { return replica_rank.size() > first_replica.size() - 1; }
};

// Places expert e on rank e R / E, rounded down. If E % R == 0, this is rank e / (E / R).
Placement place_contiguous(int n_experts, int ranks);
// Gives all ranks nearly the same number of experts, in a random order.
Placement place_random(int n_experts, int ranks, std::int64_t seed);
// Returns a given placement, for example one that was made by dragging in the window. rank_of_expert: [E], each in [0,
// R).
Placement place_by_hand(std::span<const std::int32_t> rank_of_expert, int ranks);

// place_balanced() places experts by EPLB (rebalance_experts()), from the load of each expert. If the number
// of nodes divides the `n_groups` routing groups, all experts of a group are on one node; otherwise all ranks are one
// pool. `slots_per_rank` * R >= E. Throws std::runtime_error if the slots do not suffice.
struct BalancerOptions {
  int slots_per_rank = 0;  // 0: E / R rounded up, without replicas if R divides E
  int n_groups = 1;
  int ranks_per_node = 8;
};
Placement place_balanced(std::span<const std::uint64_t> load_E, int ranks, const BalancerOptions& options);

// Returns the placement with each expert in place of `width` experts.
Placement widened(const Placement& placement, int width);

// Returns the load of each rank if every replica takes an equal share of its expert's load.
std::vector<double> rank_loads(const Placement& placement, std::span<const std::uint64_t> load_E);
// Returns the load of the fullest rank over the mean of the ranks: 1 is even. 0 if no expert has a load.
double rank_imbalance(const Placement& placement, std::span<const std::uint64_t> load_E);
// Returns the expert in each slot, the slots of a rank one after the other.
std::vector<std::int32_t> experts_of_slots(const Placement& placement);
// Returns the file that SGLang reads, which has a row for each of `layers` layers. `slots_by_layer`: their
// experts_of_slots(); layers without a plan, of which dense ones have no effect, keep their experts in order.
std::string sglang_placement(const std::map<int, std::vector<std::int32_t>>& slots_by_layer, int layers, int n_experts);

// EPLB, DeepSeek's balancer of expert parallelism (github.com/deepseek-ai/EPLB, rebalance_experts): chooses from the
// load of each expert which experts get replicas, and which GPU holds which replica.
//
// Legend: E experts, R slots for replicas, G groups, N nodes, P GPUs. N divides P, P divides R, and G divides E. If N
// also divides G, whole groups are packed to nodes first, and the other steps happen inside the nodes; otherwise all
// GPUs are one pool.
struct EplbShape {
  int slot_count = 0, groups = 1, nodes = 1, gpus = 1;
};

// Returns the expert in each slot, [R], R >= E. GPU p has the slots p R / P up to (p + 1) R / P. Sums and shares are in
// float, as in the source.
std::vector<std::int32_t> rebalance_experts(std::span<const float> load_E, const EplbShape& shape);

// Collects the loads of one layer, E experts, from which EPLB places them every N steps, with or without replicas.
// Plans are made after steps N - 1, 2 N - 1, ..., whichever step was counted first.
class LoadPlanner {
 public:
  void count_step(std::int64_t step, int replan_every, std::span<const std::uint32_t> tokens_per_expert);

  // [E] load from which the newest plan is made; empty before the first plan, when experts are contiguous.
  std::vector<std::uint64_t> planned_of;
  std::vector<std::uint64_t> load_since_plan;  // [E] load counted since the newest plan
};

// Counts, over all experts, the ranks that hold the expert in `to` but not in `from`. The weights of the expert have to
// be sent to each of them. Both placements must be for the same experts and ranks.
int experts_sent(const Placement& from, const Placement& to);

// Sum over experts of the number of ranks that hold the expert, minus 1. This many gradients of experts have to be sent
// in each step to be added up.
int gradients_sent(const Placement& placement);

}  // namespace moescope
