// The cost of the load of a router trained here for a published model on a cluster, and the effect of remedies.
//
// The load's distribution is stretched to the model's experts (load_routing.h), tokens are routed by it, copies are
// counted, and the step model computes tokens/s/GPU from them. All of this is modelled; only the imbalance of the load
// is measured. Legend: E experts, R = EP ranks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/cluster/published_runs.h"

namespace moescope {

struct LiveCase {
  int ep = 32;                // expert-parallel ranks
  bool node_limited = false;  // tokens stay inside the limited groups of the model
  bool balanced = false;      // placement by the balancer, with one more expert slot per rank for replicas
  AllToAll way = AllToAll::deep_ep;
  Payload payload = Payload::bf16;
};

struct LiveCost {
  LiveCase the_case;
  RoutingTraffic traffic;
  int gradients_sent = 0;               // for replicas, in experts of one layer (core/parallel/replication.h)
  double tokens_per_second = 0;         // per GPU
  Band band;                            // range by numbers that the published runs do not determine
  double forced_tokens_per_second = 0;  // with forced round-robin and contiguous experts, otherwise equal
  double lost() const { return 1 - tokens_per_second / forced_tokens_per_second; }
};

// `config` holds model, hardware, recipe and run; its traffic, way and payload are replaced by those of the cases.
// Empty `tokens_per_expert` means a perfectly balanced load. Throws std::runtime_error as step_time does, or if a
// case's ranks do not divide the experts. A pure function; about 10 ms per case.
std::vector<LiveCost> live_costs(const StepConfig& config, Hypothesis hypothesis,
                                 std::span<const std::uint32_t> tokens_per_expert, std::span<const LiveCase> cases,
                                 std::int64_t seed = 1);

// Returns, for every possible EP degree, with the config's way: unchanged, node-limited, balanced placement, MXFP8
// payload, and all three together.
inline constexpr int kLiveVariants = 5;
std::vector<LiveCase> live_cases(const StepConfig& config);

// Returns EP degrees from one node to all GPUs of a pipeline stage that divide both the experts and the GPUs.
std::vector<int> possible_ep(const StepConfig& config);

}  // namespace moescope
