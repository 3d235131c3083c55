// A router's figures that need sums over all tokens of the batch, for telemetry.
//
// Legend: T tokens, E experts, K top_k.
#pragma once

#include <vector>

#include "core/frame/frame.h"
#include "core/model/moe/router.h"

namespace moescope {

struct RouterSums {
  std::vector<float> score_mass;  // [E] mean over tokens of s_e / sum s
  std::vector<float> gate_mass;   // [E] share of all mixing weights
  float score_entropy = 0;        // mean over tokens of the entropy of s_e / sum s, nats
  float margin = 0;               // mean over tokens; kNoValue where no score chose, or nothing else could be chosen
  // [kHalfOctaves], or [kWideHalfOctaves] of what may be above 1: scores by sqrtsoftplus, and margins of outputs
  std::vector<std::uint32_t> score_chosen, score_rejected;  // scores of the T K chosen experts, of all others
  std::vector<std::uint32_t> margin_tokens;                 // tokens by margin; those without one are in no bin
};

// SpecialisationFrame::bias_for_share_EQ of these tokens: what quantile balancing cuts (quantile_balance.h). gate_noise
// is left out. Empty where no score chose, or nothing else could be chosen.
std::vector<float> biases_for_shares(const RouterConfig& config, int n_experts, const RouterActivations<float>& router);

RouterSums sum_router(const RouterConfig& config, int n_experts, const RouterActivations<float>& router);

}  // namespace moescope
