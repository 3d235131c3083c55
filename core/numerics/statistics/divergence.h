// How far two models agree about the next token.
//
// V is the size of the vocabulary. p are the probabilities of the model that is judged, q those of the reference;
// d = ln p - ln q of the next token. If p comes from a trainer and q from an inference engine, d and k3 are those of
// AReaL (pull request 1207). If tokens were drawn from q, k1 and k3 are Schulman's estimators of KL(q || p).
#pragma once

#include <cstdint>
#include <span>

#include "core/numerics/matrix.h"

namespace moescope {

// A model's probabilities for the next token: exp(logit - log_sum). log_sum is 0 if logits are log-probabilities
// already.
struct TokenScores {
  const float* logits;  // [V]
  double log_sum = 0;
};
TokenScores token_scores(const float* logits, Index vocabulary);  // log_sum: ln of the sum of exp(logit)

// KL(q || p) = sum over V of q ln(q / p), nats.
double kl_divergence(TokenScores q, TokenScores p, Index vocabulary);

// Means over all added tokens; there must be at least one.
class LogRatios {
 public:
  void add(double d);
  std::int64_t tokens() const { return tokens_; }
  double k1() const { return k1_ / tokens_; }                    // mean of -d
  double k3() const { return k3_ / tokens_; }                    // mean of exp(d) - 1 - d
  double ratio_beyond_2() const { return beyond_2_ / tokens_; }  // share of tokens with |d| > ln 2
  double largest() const { return largest_; }                    // largest |d|

 private:
  std::int64_t tokens_ = 0;
  double k1_ = 0, k3_ = 0, beyond_2_ = 0, largest_ = 0;
};

// Agreement of two passes over the same batch about the next tokens. Reinforcement learning logs these figures for a
// trainer and an inference engine; here they compare two formats of the same weights, or two checkpoints
// (core/numerics/statistics/divergence.h).
//
// Legend: T tokens, V vocabulary; p the run's probabilities, q the reference's.
struct PredictedTokens {
  Matrix<const float> logits;     // [T, V]
  std::span<const float> loss_T;  // -ln of the probability of the token that follows
};

struct Agreement {
  double kl = 0;  // KL(q || p), mean over tokens, nats; NaN if the vocabularies differ
  LogRatios ratios;
};

// Tokens with padding_T = 1 are not counted; empty: all tokens are counted. At least one token must be counted.
Agreement agreement(const PredictedTokens& run, const PredictedTokens& reference,
                    std::span<const std::uint8_t> padding_T = {});

}  // namespace moescope
