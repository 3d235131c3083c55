// A question about a cluster, which panels set, and the answer of the models, computed by a pure function in a worker
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/cluster/published_runs.h"
#include "core/config/placement_choice.h"
#include "core/frame/frame.h"

namespace moescope {

enum class AskedRouting { forced, live };

struct ClusterQuestion {
  std::string hardware = "b200";
  bool mxfp8 = true;
  AllToAll all_to_all = AllToAll::deep_ep;
  Payload payload = Payload::bf16;
  int ep = 32;
  AskedRouting routing = AskedRouting::forced;
  PlacementChoice placement;
  std::vector<std::uint32_t> live_load;  // tokens_per_expert of a layer of the open run, if the routing is live
  int layer = 0;                         // of this load
  bool operator==(const ClusterQuestion&) const = default;
};

struct ClusterAnswer {
  std::string problem;  // why there is no answer; empty if there is one
  StepConfig config;
  StepParameters parameters;
  StepTime time;
  Band band;
  VolumeFrame volume;  // volumes of `tokens` tokens of all ranks
  std::int64_t tokens = 0;
  double fullest_rank = 0;  // its load over the mean, from the load of the experts, without the sampling of tokens
};

// True if the ranks hold the run's own experts, each in place of as many of the model's `n_experts`, as in the panel
// Expert placement.
bool has_own_ranks(const ClusterQuestion& question, int n_experts);

// DeepSeek-V3 671B as in the published runs on 256 GPUs in nodes of eight. step_config() has the published routing, and
// answer() that of the question.
StepConfig step_config(const ClusterQuestion& question);
ClusterAnswer answer(const ClusterQuestion& question);

}  // namespace moescope
