// Rotary position embedding of checkpoints, as transformers computes it: the angle of each pair of a head's dimensions
// at a position, plain or adapted to a longer context (linear; YaRN, arXiv:2309.00071; Llama 3).
#pragma once

#include <vector>

#include "core/checkpoints/checkpoint_config.h"
#include "core/numerics/matrix.h"

namespace moescope {

// Returns the radians per token for each of the dim / 2 pairs.
std::vector<float> rope_frequencies(const RopeSettings& rope, int dim);
// Returns the factor of cos and sin.
double rope_attention_factor(const RopeSettings& rope);
// Returns the additional factor of the scores in DeepSeek's YaRN.
double rope_score_factor(const RopeSettings& rope);

class RopeAngles {
 public:
  // Computes the angles for the positions [first, first + count).
  RopeAngles(const RopeSettings& rope, int dim, Index first, Index count);

  // Rotates the `dim` values at `x` of the token at `position`. Pairs are neighbours if `interleaved`, otherwise dim /
  // 2 apart.
  void apply(float* x, Index position, bool interleaved) const;

 private:
  Index pairs_, first_;
  std::vector<float> cos_, sin_;  // [count, pairs]
};

}  // namespace moescope
