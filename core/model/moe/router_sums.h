// A router's figures that need sums over all tokens of the batch, for telemetry.
//
// Legend: T tokens, E experts, K top_k.
#pragma once

#include <vector>

#include "core/frame/frame.h"
#include "core/model/moe/router.h"

namespace moescope {

// Computes SpecialisationFrame::bias_for_share_EQ of these tokens, from the quantity that quantile balancing uses
// (quantile_balance.h), without gate_noise. Empty if experts were chosen without scores, or no other could be chosen.
std::vector<float> biases_for_shares(const RouterConfig& config, int n_experts, const RouterActivations<float>& router);

// Returns a frame with these figures alone: score_mass, gate_mass, score_entropy, margin (kNoValue without scores or
// another possible choice), score_chosen, score_rejected and margin_tokens, in which tokens without a margin are in no
// bin.
RouterFrame sum_router(const RouterConfig& config, int n_experts, const RouterActivations<float>& router);

}  // namespace moescope
