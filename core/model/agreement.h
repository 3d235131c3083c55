// How far two passes over the same batch agree about the next tokens: what reinforcement learning logs between a
// trainer and an inference engine, here between two formats of the same weights or between two checkpoints.
//
// Legend: T tokens, V vocabulary; p the run's probabilities, q the reference's; d = ln p - ln q of the token that
// follows. With p the trainer's and q the engine's, d and k3 are those of AReaL (pull request 1207).
#pragma once

#include <cstdint>

#include "core/numerics/matrix.h"

namespace moescope {

struct PredictedTokens {
  Matrix<const float> logits;  // [T, V]
  const float* loss_T;         // -ln of the probability of the token that follows
};

struct Agreement {
  double kl = 0;              // sum over V of q ln(q / p), mean over tokens, nats; NaN if the vocabularies differ
  double k1 = 0;              // mean of -d
  double k3 = 0;              // mean of exp(d) - 1 - d
  double ratio_beyond_2 = 0;  // share of the tokens with |d| > ln 2
};

// padding_T: 1: the token does not count; nullptr: all do. At least one counts.
Agreement agreement(const PredictedTokens& run, const PredictedTokens& reference,
                    const std::uint8_t* padding_T = nullptr);

}  // namespace moescope
