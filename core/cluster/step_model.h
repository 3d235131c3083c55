// Time of a training step on a cluster of GPUs, per token and GPU, as a sum of named parts.
//
// Legend: T tokens, L layers, R = EP ranks. FLOPs and bytes are counted (model_shape.h, volumes.h), rates are those of
// a hardware profile, and three parameters are fitted to published runs (published_runs.h):
//
//     t = [ routed_flops f dup / rate / s                  routed experts, the fullest rank's f = max/mean; s: MXFP8
//         + other_flops / rate + attention_flops / rate    includes recompute
//         + (1 - overlap) (max(network, NVLink bytes of the fullest rank / rate) dup + latency + overhead)
//         + tensor-parallel bytes / NVLink rate            4 per layer and pass, arXiv:2205.05198
//         + rest                                           everything without a part of its own
//         ] stretch                                        pipeline_stretch(): uneven stages, and the schedule's bubble
//     tokens/s/GPU = 1 / t
//
// GEMM rates are those of GEMMs measured one by one, divided by the profile's slow-down of GEMMs back to back.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/cluster/hardware.h"
#include "core/cluster/model_shape.h"
#include "core/cluster/ranks/volumes.h"
#include "core/numerics/names.h"

namespace moescope {

// H1: tokens are split over the tensor-parallel ranks; DeepEP then needs 0.2 ms/token of its own (assumed). H2: with
// DeepEP every tensor-parallel rank dispatches and computes each token again, which the code of these runs suggests.
enum class Hypothesis { h1, h2 };

enum class Recompute { none, selective, full };  // selective keeps the results of the all-to-all
inline constexpr auto recompute_name = names_of<Recompute>("none", "selective", "full");

// Copies of a token by link for one dispatch, counted from a routing; mean over ranks, and on the busiest rank.
struct RoutingTraffic {
  int ranks = 1, ranks_per_node = 8;
  double network = 0, network_fullest = 0;  // the larger of sent and received
  double nvlink = 0, nvlink_fullest = 0;
  double local = 0;             // copies that never leave their rank
  double copies_per_token = 0;  // sent rows, including those to the own rank
  double received_max_over_mean = 1;
  double expert_rows_max_over_mean = 1;  // rows that the experts of a rank compute
};
// Returns the traffic of a routing, per token. `tokens` is the number of tokens of all ranks.
RoutingTraffic routing_traffic(const VolumeFrame& volume, std::int64_t tokens, AllToAll kind);

struct StepConfig {
  ModelShape shape;
  HardwareProfile hardware;
  bool mxfp8 = false;  // for the grouped GEMMs of routed experts; other GEMMs are in BF16
  AllToAll all_to_all = AllToAll::standard;
  Payload payload = Payload::bf16;
  RoutingTraffic traffic;
  int gpus = 256, tp = 1, pp = 1, virtual_stages = 1;
  int microbatches = 1;     // per optimizer step, through the pipeline: interleaved 1F1B
  std::int64_t seq = 8192;  // tokens of one sequence
  std::int64_t microbatch_sequences = 1;
  Recompute recompute = Recompute::full;
  double overlap = 0;  // share of the communication hidden behind compute
};

// Parameters that are fitted to published runs, or assumed.
struct StepParameters {
  Hypothesis hypothesis = Hypothesis::h2;
  double standard_network_share = 1;  // fitted: share of the line rate that the standard all-to-all reaches
  double mxfp8_speedup = 1;           // fitted: speedup of grouped GEMMs, including quantization
  double rest_ms = 0;                 // fitted: 671B on B200, per token; for others scaled by L D and by memory speed
  double deep_ep_overhead_ms = 0;     // assumed: per token
  // Assumed: share of the rest that scales with memory bandwidth (norms, permuting). Waiting for the host does not
  // scale.
  double rest_with_memory = 1;
};

struct StepPart {
  const char* name;
  double ms;  // per token and GPU
  Provenance kind;
  std::string how;
  std::string fitted;  // names of the fitted numbers that the part contains; may be empty
};

struct StepTime {
  std::vector<StepPart> parts;
  double ms_per_token = 0;
  double tokens_per_second = 0;                 // per GPU
  double network_bytes = 0, nvlink_bytes = 0;   // per token, over all layers and operations, mean over ranks
  double duplication = 1;                       // number of times that a token is dispatched and computed
  double stretch = 1;                           // ms_per_token divided by the sum of all parts except the pipeline's
  double part_ms(std::string_view name) const;  // 0 if there is no such part
  std::string fitted() const;                   // names of the fitted numbers in the parts; may be empty
};
// Throws std::runtime_error for MXFP8 on hardware without it, or for an impossible config.
StepTime step_time(const StepConfig& config, const StepParameters& parameters);

// The rates that the model uses for the parts of a layer.
struct LayerRates {
  double network_GBps, nvlink_GBps;  // achieved by the all-to-all
  double latency_us;                 // latency of an operation
  // Forward GEMMs of one expert for one row, with quantization; the backward pass takes twice as long.
  double expert_row_us;
};
LayerRates layer_rates(const StepConfig& config, const StepParameters& parameters);
// Number of times that a token is dispatched and computed.
double token_duplication(const StepConfig& config, const StepParameters& parameters);

// The pipeline of a training step: the layers of each stage, and the time of the schedule.
//
// Legend: P pipeline ranks, V stages per rank, S = P V stages, M microbatches. Stage s is on rank s mod P. Sources:
// torchtitan distributed/pipeline_parallel.py for the layers by stage; the order of operations is that of
// Interleaved1F1B in torch.distributed.pipelining (Narayanan et al., arXiv:2104.04473), with V = 1 that of 1F1B.
struct StageLayers {
  int dense = 0, moe = 0;  // transformer blocks
  bool head = false;       // true for the last stage; the first holds the embedding
};
// Divides the layers among the stages. Embedding and head count as one layer each; the first stages take the remainder
// of the division. Throws std::runtime_error if there are more stages than layers.
std::vector<StageLayers> layers_by_stage(const ModelShape& shape, int stages);

// Times of a step relative to a pipeline with equal work on all ranks and no waiting; both are 1 or more.
struct PipelineStretch {
  double imbalance = 1;  // work of the busiest rank over the mean
  double total = 1;      // the whole schedule; total - imbalance is the bubble
};
// `forward_S` is the time of a forward pass of one microbatch through each stage, in any unit; a backward pass takes
// `backward` times as long. The schedule is simulated operation by operation: each rank does its operations in order, a
// forward starts after the forward of the previous stage, and a backward after the backward of the next stage. Sending
// takes no time. Throws std::runtime_error if the schedule does not allow this number of microbatches (V > 1 needs a
// whole number of equal rounds).
PipelineStretch pipeline_stretch(std::span<const double> forward_S, int ranks, int microbatches, double backward);

}  // namespace moescope
