#include "core/numerics/statistics/divergence.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace moescope {

TokenScores token_scores(const float* logits, Index vocabulary) {
  const double top = *std::max_element(logits, logits + vocabulary);
  double sum = 0;
  for (Index v = 0; v < vocabulary; ++v) sum += std::exp(logits[v] - top);
  return {logits, std::log(sum) + top};
}

double kl_divergence(TokenScores q, TokenScores p, Index vocabulary) {
  double kl = 0;
  for (Index v = 0; v < vocabulary; ++v) {
    const double log_q = q.logits[v] - q.log_sum;
    const double log_p = p.logits[v] - p.log_sum;
    kl += std::exp(log_q) * (log_q - log_p);
  }
  return kl;
}

void LogRatios::add(double d) {
  ++tokens_;
  k1_ -= d;
  k3_ += std::expm1(d) - d;
  beyond_2_ += std::fabs(d) > std::numbers::ln2;
  largest_ = std::max(largest_, std::fabs(d));
}

Agreement agreement(const PredictedTokens& run, const PredictedTokens& reference,
                    std::span<const std::uint8_t> padding_T) {
  Agreement found;
  const Index vocabulary = run.logits.cols;
  const bool same_vocabulary = reference.logits.cols == vocabulary;
  for (Index t = 0; t < run.logits.rows; ++t) {
    if (!padding_T.empty() && padding_T[t]) continue;
    if (same_vocabulary)
      found.kl += kl_divergence(token_scores(reference.logits.row(t), vocabulary),
                                token_scores(run.logits.row(t), vocabulary), vocabulary);
    found.ratios.add(reference.loss_T[t] - static_cast<double>(run.loss_T[t]));
  }
  found.kl = same_vocabulary ? found.kl / found.ratios.tokens() : std::nan("");
  return found;
}

}  // namespace moescope
