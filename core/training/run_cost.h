// What a run costs, as far as its settings alone say it: parameters, the memory that they take, and the work of a step.
#pragma once

#include <cstdint>

#include "core/config/run_config.h"

namespace moescope {

struct RunCost {
  std::int64_t parameters = 0;  // all, expert_bias not counted
  std::int64_t active = 0;      // of them, those that one token meets: top_k of the routed experts, and all others
  // Weights, gradients and AdamW's two moments, all in FP32. Counted; what a batch leaves in each layer comes on top.
  std::int64_t bytes = 0;
  // Forward and backward as TorchTitan counts them: 6 x (active without embedding) + 6 L H (qk + v head dim) seq.
  double flops_per_token = 0;
  double flops_per_step = 0;
};

// The config must pass validate().
RunCost run_cost(const RunConfig& config);

}  // namespace moescope
