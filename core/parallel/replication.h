// Replication of experts during training: every N steps EPLB chooses which experts get replicas and places all of them,
// from the load of the last N steps. A real training could do this, because the load of a step is only known after
// routing.
//
// Legend: E experts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/parallel/placement.h"

namespace moescope {

// Collects the loads of one layer. Plans are made after steps N - 1, 2 N - 1, ..., whichever step was counted first.
class LoadPlanner {
 public:
  void count_step(std::int64_t step, int replan_every, std::span<const std::uint32_t> tokens_per_expert);

  // [E] load from which the newest plan is made; empty before the first plan, when experts are in order.
  std::vector<std::uint64_t> planned_of;
  std::vector<std::uint64_t> since;  // [E] counted since then
};

// Number of experts that the ranks of `to` hold and did not hold in `from`; their weights have to be sent. Both
// placements must be for the same experts and ranks.
int experts_sent(const Placement& from, const Placement& to);

// Number of ranks that hold an expert besides the rank of its first replica, over all experts. As many gradients of
// experts have to be sent in each step to be added up.
int gradients_sent(const Placement& placement);

}  // namespace moescope
