// Similarity of the experts of each layer: the cosine of the outputs of two experts for the same token, mean over all
// tokens of the texts, whichever experts the router chose for them:
//   S_ij = 1/T sum_t f_i(x_t).f_j(x_t) / (|f_i(x_t)| |f_j(x_t)|)
// f_i(x): output of expert i before it is mixed. The cosine with an output of norm 0 counts as 0. The cosine is taken
// per token as in Lo et al., arXiv:2406.18219. HC-SMoE (arXiv:2410.08589) merges experts by the similarity of their
// outputs.
//
// In each pass every expert computes all tokens, which takes E / K times the products of the chosen experts.
#pragma once

#include <functional>

#include "core/checkpoints/ablation/predictions.h"
#include "core/frame/expert_scan.h"

namespace moescope {

// `progress` gets the number of finished passes and of all passes; if it returns false, the passes stop and the result
// has no layers. Throws std::runtime_error as CheckpointModel::forward, if no text has two tokens, or if no layer has
// experts.
ExpertSimilarity similarity_of_experts(const CheckpointModel& model, const std::vector<LabelledText>& texts,
                                       const ComparedTexts& which,
                                       const std::function<bool(int done, int total)>& progress);

}  // namespace moescope
