// Replication of experts while a model trains: every N steps the rule of EPLB chooses which experts get replicas and
// places all of them, from the load of the N steps before. What a training could do: no step's own load is known
// before it is routed.
//
// Legend: E experts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/parallel/placement.h"

namespace moescope {

// Collects the loads of one layer. Plans are made after steps N - 1, 2 N - 1, ..., whenever the counting began.
class LoadPlanner {
 public:
  void count_step(std::int64_t step, int replan_every, std::span<const std::uint32_t> tokens_per_expert);

  // [E] that the newest plan is made of; empty: there is no plan yet, experts are in order.
  std::vector<std::uint64_t> planned_of;
  std::vector<std::uint64_t> since;  // [E] counted after it
};

// Experts that the ranks of `to` have and did not have in `from`: the weights of so many have to be sent. Both place
// the same experts on the same ranks.
int experts_sent(const Placement& from, const Placement& to);

// Ranks that hold an expert beside its first replica's, over all experts: so many gradients of an expert have to be
// sent in each step, to be added up.
int gradients_sent(const Placement& placement);

}  // namespace moescope
