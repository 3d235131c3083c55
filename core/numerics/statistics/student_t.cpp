#include "core/numerics/statistics/student_t.h"

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

}  // namespace moescope
