// EPLB, DeepSeek's balancer of expert parallelism (github.com/deepseek-ai/EPLB, rebalance_experts): chooses from the
// load of each expert which experts get replicas, and which GPU holds which replica.
//
// Legend: E experts, R slots for replicas, G groups, N nodes, P GPUs. N divides P, P divides R, and G divides E. If N
// also divides G, whole groups are packed to nodes first, and the other steps happen inside the nodes; otherwise all
// GPUs are one pool.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moescope {

struct EplbShape {
  int slots = 0, groups = 1, nodes = 1, gpus = 1;
};

// Returns the expert in each slot, [R], R >= E. GPU p has the slots p R / P up to (p + 1) R / P. Sums and shares are in
// float, as in the source.
std::vector<std::int32_t> rebalance_experts(std::span<const float> load_E, const EplbShape& shape);

}  // namespace moescope
