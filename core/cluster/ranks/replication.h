// Replication of experts during training: every N steps EPLB chooses which experts get replicas and places all of them,
// from the load of the last N steps. A real training could do this too. It could not place experts by the load of the
// same step, which is only known after routing.
//
// Legend: E experts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/cluster/ranks/placement.h"

namespace moescope {

// Collects the loads of one layer. Plans are made after steps N - 1, 2 N - 1, ..., whichever step was counted first.
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
