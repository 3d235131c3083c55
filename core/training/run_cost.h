// Cost of a run, computed from its settings: parameters, their memory, and the work of a step.
#pragma once

#include <cstdint>

#include "core/config/run_config.h"

namespace moescope {

struct RunCost {
  std::int64_t parameters = 0;  // all parameters, without expert_bias
  std::int64_t active = 0;      // parameters that one token uses: top_k of the routed experts, and all others
  // Weights, gradients and AdamW's two moments, all in FP32. Counted; does not include the activations of a batch.
  std::int64_t bytes = 0;
  // Forward and backward, counted as in TorchTitan: 6 x (active without embedding) + 6 L H (qk + v head dim) seq.
  double flops_per_token = 0;
  double flops_per_step = 0;
};

// The config must pass validate().
RunCost run_cost(const RunConfig& config);

}  // namespace moescope
