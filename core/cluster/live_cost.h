// What the load of a router trained here would cost a published model on a cluster, and what would help.
//
// The load's distribution is stretched to the model's experts (load_routing.h), tokens are routed by it, copies are
// counted, and the step model turns them into tokens/s/GPU. All of this is modelled; only the imbalance of the load is
// measured. Legend: E experts, R = EP ranks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/cluster/published_runs.h"

namespace moescope {

struct LiveCase {
  int ep = 32;                // expert-parallel ranks
  bool node_limited = false;  // tokens stay inside the model's limited groups
  bool balanced = false;      // placement by the balancer, one more expert slot a rank for replicas
  AllToAll way = AllToAll::deep_ep;
  Payload payload = Payload::bf16;
};

struct LiveCost {
  LiveCase the_case;
  RoutingTraffic traffic;
  int gradients_sent = 0;  // of a balanced placement's replicas, in experts of one layer (core/parallel/replication.h)
  double tokens_per_second = 0;         // per GPU
  Band band;                            // of what the published runs leave undetermined
  double forced_tokens_per_second = 0;  // the same case under forced round-robin, contiguous experts
  double lost() const { return 1 - tokens_per_second / forced_tokens_per_second; }
};

// `config`: model, hardware, recipe and run; its traffic, way and payload are the cases'. Empty `tokens_per_expert`:
// perfectly balanced. Throws std::runtime_error as step_time does, or when a case's ranks do not divide the experts. A
// pure function, some 10 ms a case.
std::vector<LiveCost> live_costs(const StepConfig& config, Hypothesis hypothesis,
                                 std::span<const std::uint32_t> tokens_per_expert, std::span<const LiveCase> cases,
                                 std::int64_t seed = 1);

// For every possible EP degree, with the config's way: as it is, node-limited, balanced placement, MXFP8 payload, and
// all three.
inline constexpr int kLiveVariants = 5;
std::vector<LiveCase> live_cases(const StepConfig& config);

// EP degrees from one node to all GPUs of a pipeline stage that divide both the experts and the GPUs.
std::vector<int> possible_ep(const StepConfig& config, int ranks_per_node = 8);

}  // namespace moescope
