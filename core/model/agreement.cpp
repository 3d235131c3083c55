#include "core/model/agreement.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace moescope {
namespace {

// ln of the sum of exp(logit).
double log_sum(const float* logits, Index vocabulary) {
  const double top = static_cast<double>(*std::max_element(logits, logits + vocabulary));
  double sum = 0;
  for (Index v = 0; v < vocabulary; ++v) sum += std::exp(static_cast<double>(logits[v]) - top);
  return std::log(sum) + top;
}

// KL(q || p) of one token.
double divergence(const float* of_p, const float* of_q, Index vocabulary) {
  const double sum_p = log_sum(of_p, vocabulary), sum_q = log_sum(of_q, vocabulary);
  double kl = 0;
  for (Index v = 0; v < vocabulary; ++v) {
    const double log_q = static_cast<double>(of_q[v]) - sum_q, log_p = static_cast<double>(of_p[v]) - sum_p;
    kl += std::exp(log_q) * (log_q - log_p);
  }
  return kl;
}

}  // namespace

Agreement agreement(const PredictedTokens& run, const PredictedTokens& reference, const std::uint8_t* padding_T) {
  Agreement sums;
  double counted = 0;
  const bool same_vocabulary = run.logits.cols == reference.logits.cols;
  for (Index t = 0; t < run.logits.rows; ++t) {
    if (padding_T && padding_T[t]) continue;
    const double d = static_cast<double>(reference.loss_T[t]) - static_cast<double>(run.loss_T[t]);
    if (same_vocabulary) sums.kl += divergence(run.logits.row(t), reference.logits.row(t), run.logits.cols);
    sums.k1 -= d;
    sums.k3 += std::expm1(d) - d;
    sums.ratio_beyond_2 += std::fabs(d) > std::numbers::ln2;
    ++counted;
  }
  for (double* sum : {&sums.kl, &sums.k1, &sums.k3, &sums.ratio_beyond_2}) *sum /= counted;
  if (!same_vocabulary) sums.kl = std::nan("");
  return sums;
}

}  // namespace moescope
