// Rotary position embedding as checkpoints have it: by how much each pair of a head's dimensions turns at a position,
// plain or changed for a longer context (linear; YaRN, arXiv:2309.00071; Llama 3), as transformers computes it.
#pragma once

#include <vector>

#include "core/checkpoints/checkpoint_config.h"
#include "core/numerics/matrix.h"

namespace moescope {

// Radians per token of the dim / 2 pairs.
std::vector<float> rope_frequencies(const RopeSettings& rope, int dim);
// What cos and sin are multiplied by.
double rope_attention_factor(const RopeSettings& rope);
// What YaRN of DeepSeek multiplies the scores by besides.
double rope_score_factor(const RopeSettings& rope);

class RopeAngles {
 public:
  // Of the positions [first, first + count).
  RopeAngles(const RopeSettings& rope, int dim, Index first, Index count);

  // Turns the dim values at x of the token at `position`. `interleaved`: pairs lie side by side; else half of `dim`
  // apart.
  void apply(float* x, Index position, bool interleaved) const;

 private:
  Index pairs_, first_;
  std::vector<float> cos_, sin_;  // [count, pairs]
};

}  // namespace moescope
