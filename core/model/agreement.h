// Agreement of two passes over the same batch about the next tokens. Reinforcement learning logs these figures for a
// trainer and an inference engine; here they compare two formats of the same weights, or two checkpoints
// (core/numerics/statistics/divergence.h).
//
// Legend: T tokens, V vocabulary; p the run's probabilities, q the reference's.
#pragma once

#include <cstdint>
#include <span>

#include "core/numerics/matrix.h"
#include "core/numerics/statistics/divergence.h"

namespace moescope {

struct PredictedTokens {
  Matrix<const float> logits;  // [T, V]
  const float* loss_T;         // -ln of the probability of the token that follows
};

struct Agreement {
  double kl = 0;  // KL(q || p), mean over tokens, nats; NaN if the vocabularies differ
  LogRatios ratios;
};

// Tokens with padding_T = 1 are not counted; empty: all tokens are counted. At least one token must be counted.
Agreement agreement(const PredictedTokens& run, const PredictedTokens& reference,
                    std::span<const std::uint8_t> padding_T = {});

}  // namespace moescope
