// A question about a cluster, which panels set, and the answer of the models, computed by a pure function in a worker
// thread.
#pragma once

#include <QString>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/cluster/published_runs.h"
#include "core/config/placement_choice.h"
#include "core/frame/frame.h"

namespace moescope {

inline constexpr int kModelExperts = 256;  // of DeepSeek-V3

enum class AskedRouting { forced, live };

// Tokens per expert of MoE layers of a run at a step, by rising load of the fullest rank with the experts in order: of
// all its layers or of some, and always of the fullest.
struct LayerLoads {
  std::size_t layers = 0;  // MoE layers of the run
  std::vector<int> layer_L;
  std::vector<std::vector<std::uint32_t>> load_L;
  int fullest() const { return layer_L.empty() ? -1 : layer_L.back(); }
  QString text() const;  // "mean of 8 layers", "layer 1"
  bool operator==(const LayerLoads&) const = default;
};
LayerLoads layer_loads(const TelemetryFrame& frame, int ep);

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
  LayerLoads loads;                      // the step's time is the mean over these layers; empty: live_load in all
  bool operator==(const ClusterQuestion&) const = default;
};

struct ClusterAnswer {
  std::string problem;  // why there is no answer; empty if there is one
  StepConfig config;
  StepParameters parameters;
  StepTime time;  // mean over the layers
  Band band;
  VolumeFrame volume;  // volumes of `tokens` tokens of all ranks, with live_load
  std::int64_t tokens = 0;
  double fullest_rank = 0;  // its load over the mean, from the load of the experts, without the sampling of tokens
};

struct RunChoices {
  QString letter;                  // of the run; empty if the choices are those of all runs
  std::vector<StepChoices> steps;  // by EP degree
};

// True if the ranks hold the run's own experts, each in place of as many of the model's `n_experts`, as in the panel
// Expert placement.
bool has_own_ranks(const ClusterQuestion& question, int n_experts);

// DeepSeek-V3 671B as in the published runs on 256 GPUs in nodes of eight. step_config() has the published routing, and
// answer() that of the question.
StepConfig step_config(const ClusterQuestion& question);
ClusterAnswer answer(const ClusterQuestion& question);
// Traffic of the layers of the question for each of these EP degrees; that of answer() at its degree.
std::vector<TrafficByKind> layer_traffic(const ClusterQuestion& question, std::span<const int> degrees);

}  // namespace moescope
