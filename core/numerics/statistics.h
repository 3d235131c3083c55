// Statistics: correlation, intervals of a mean by Student's t distribution, and how far two models agree about the next
// token.
//
// V is the size of the vocabulary. p are the probabilities of the model that is judged, q those of the reference;
// d = ln p - ln q of the next token. If p comes from a trainer and q from an inference engine, d and k3 are those of
// AReaL (pull request 1207). If tokens were drawn from q, k1 and k3 are Schulman's estimators of KL(q || p).
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "core/numerics/matrix.h"

namespace moescope {

// Pearson's correlation of a and b, whose means are 0: sum a b / sqrt(sum a^2 sum b^2). NaN if all a or all b are 0.
class Correlation {
 public:
  void add(double a, double b) {
    ab_ += a * b;
    aa_ += a * a;
    bb_ += b * b;
  }
  double value() const { return ab_ / std::sqrt(aa_ * bb_); }

 private:
  double ab_ = 0, aa_ = 0, bb_ = 0;
};

// Returns t with P(|T| <= t) = 0.95 for Student's distribution of `degrees` >= 1 degrees of freedom, not necessarily
// whole.
double student_95(double degrees);
// Returns t with P(|T| <= t) = `inside` for that distribution.
double student_quantile(double degrees, double inside);
// Returns c with P(all of `count` |T| <= c) = 0.95 for T with independent numerators and one common denominator.
double largest_student_95(double degrees, int count);

// A figure that was measured on several pieces of text: its mean, with an interval.
struct FigureOfPieces {
  double mean = 0;
  double interval = 0;  // half of the width of the mean's interval over pieces; NaN for a single piece
};
// Returns mean and interval of `pieces` values with this mean and sum of squared deviations from it. `inside`:
// probability of the interval.
inline FigureOfPieces figure_of_sums(double pieces, double mean, double squares, double inside = 0.95) {
  if (pieces < 2) return {mean, std::numeric_limits<double>::quiet_NaN()};
  return {mean, student_quantile(pieces - 1, inside) * std::sqrt(squares / (pieces - 1) / pieces)};
}
// Returns mean and interval of `values`, the values of at least one piece.
inline FigureOfPieces figure_of_pieces(std::span<const double> values, double inside = 0.95) {
  const double n = values.size();
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  for (const double value : values) squares += (value - sum / n) * (value - sum / n);
  return figure_of_sums(n, sum / n, squares, inside);
}

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
// trainer and an inference engine; here they compare two formats of the same weights, or two checkpoints.
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
