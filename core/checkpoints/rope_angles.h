// Rotary position embedding of checkpoints, as transformers computes it: the angle of each pair of a head's dimensions
// at a position, plain or adapted to a longer context (linear; YaRN, arXiv:2309.00071; Llama 3).
#pragma once

#include <vector>

#include "core/checkpoints/checkpoint_config.h"
#include "core/model/layers/rope.h"

namespace moescope {

// Returns the radians per token for each of the dim / 2 pairs.
std::vector<float> rope_frequencies(const RopeSettings& rope, int dim);
// Returns the factor of cos and sin.
double rope_attention_factor(const RopeSettings& rope);
// Returns the additional factor of the scores in DeepSeek's YaRN.
double rope_score_factor(const RopeSettings& rope);

// Returns the tables for the positions [first, first + count). Angles are products in FP32, as in transformers.
Rope<float> rope_of(const RopeSettings& rope, int dim, Index first, Index count);

}  // namespace moescope
