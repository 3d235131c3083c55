#include "core/numerics/statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>

namespace moescope {

// With t = sqrt(n) tan(x), n: degrees of freedom, the density becomes cos(x)^(n - 1), which is integrated by the
// midpoint rule.
double student_quantile(double degrees, double inside) {
  constexpr int kParts = 1000;
  const double part = std::numbers::pi / 2 / kParts;
  std::array<double, kParts + 1> area{};
  for (std::size_t i = 0; i < kParts; ++i) area[i + 1] = area[i] + std::pow(std::cos((i + 0.5) * part), degrees - 1);
  const double wanted_area = inside * area.back();
  const std::size_t above = std::ranges::lower_bound(area, wanted_area) - area.begin();
  const double x = above - (area[above] - wanted_area) / (area[above] - area[above - 1]);
  return std::sqrt(degrees) * std::tan(x * part);
}

double student_95(double degrees) {
  return student_quantile(degrees, 0.95);
}

// Searches for the c for which the mean of P(|Z| <= c u)^count is 0.95. u is distributed as sqrt(chi^2 / degrees); the
// mean is integrated over log u. Its logarithm is concave, so that Newton's method rises to c from the normal quantile.
double largest_student_95(double degrees, int count) {
  if (count <= 1) return student_95(degrees);
  constexpr int kParts = 400;
  constexpr double kLow = -9, kHigh = 2;      // range of log u
  const double n = std::min(degrees, 400.0);  // the quantile hardly changes beyond 400
  std::array<double, kParts> scale{}, weight{};
  double all = 0;
  for (std::size_t i = 0; i < kParts; ++i) {
    const double log_u = kLow + (kHigh - kLow) * (i + 0.5) / kParts;
    scale[i] = std::exp(log_u);
    weight[i] = std::exp(n * (log_u - (scale[i] * scale[i] - 1) / 2));
    all += weight[i];
  }
  double c = 1.96;
  for (double step = c; step > 1e-9 * c; c += step) {
    double inside = 0, slope = 0;
    for (std::size_t i = 0; i < kParts; ++i) {
      const double z = c * scale[i] / std::numbers::sqrt2, one = std::erf(z);
      double others_inside = weight[i];
      for (int other = 1; other < count; ++other) others_inside *= one;
      inside += others_inside * one;
      slope += others_inside * count * std::numbers::inv_sqrtpi * std::numbers::sqrt2 * scale[i] * std::exp(-z * z);
    }
    step = std::log(0.95 * all / inside) * inside / slope;
  }
  return c;
}

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
