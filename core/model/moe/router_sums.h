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
  float margin = 0;               // mean over tokens; kNoValue without scores or another possible choice
  // [kHalfOctaves], or [kWideHalfOctaves] for values that may exceed 1: scores by sqrtsoftplus, and margins of outputs
  std::vector<std::uint32_t> score_chosen, score_rejected;  // scores of the T K chosen experts, and of all others
  std::vector<std::uint32_t> margin_tokens;                 // tokens by margin; tokens without one are in no bin
};

// Computes SpecialisationFrame::bias_for_share_EQ of these tokens, from the quantity that quantile balancing uses
// (quantile_balance.h), without gate_noise. Empty if experts were chosen without scores, or no other could be chosen.
std::vector<float> biases_for_shares(const RouterConfig& config, int n_experts, const RouterActivations<float>& router);

RouterSums sum_router(const RouterConfig& config, int n_experts, const RouterActivations<float>& router);

}  // namespace moescope
