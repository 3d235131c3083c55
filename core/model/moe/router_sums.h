// A router's figures that need sums over all tokens of the batch, for telemetry.
//
// Legend: T tokens, E experts, K top_k.
#pragma once

#include <vector>

#include "core/frame/frame.h"
#include "core/model/moe/router.h"

namespace moescope {

// Returns SpecialisationFrame::bias_for_share_EQ of these tokens, from the quantity r that quantile balancing uses
// (bias_rules.h), without gate_noise. Empty if experts were chosen without scores, or if no other experts could
// be chosen.
std::vector<float> biases_for_shares(const RouterConfig& config, const RouterActivations<float>& router);

// Returns a frame in which only these figures are set: score_mass, gate_mass, score_entropy, margin (kNoValue if
// experts were chosen without scores or no other experts could be chosen), score_chosen, score_rejected and
// margin_tokens, in which tokens without a margin are in no bin.
RouterFrame sum_router(const RouterConfig& config, const RouterActivations<float>& router);

}  // namespace moescope
