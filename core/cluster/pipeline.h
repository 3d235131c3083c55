// The pipeline of a training step: the layers of each stage, and the time of the schedule.
//
// Legend: P pipeline ranks, V stages per rank, S = P V stages, M microbatches. Stage s is on rank s mod P. Sources:
// torchtitan distributed/pipeline_parallel.py for the layers by stage; the order of operations is that of
// Interleaved1F1B in torch.distributed.pipelining (Narayanan et al., arXiv:2104.04473), with V = 1 that of 1F1B.
#pragma once

#include <span>
#include <vector>

#include "core/cluster/model_shape.h"

namespace moescope {

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
