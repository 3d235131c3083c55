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

}  // namespace moescope
