#include "core/numerics/elementary.h"

#include <array>
#include <cmath>
#include <limits>
#include <numbers>

namespace moescope {
namespace {

// ln 2 and pi / 2 in parts. The first parts have 33 bits, so that their multiples up to 2^20 are exact.
constexpr double kLn2[] = {0x1.62e42feep-1, 0x1.a39ef35793c76p-33};
constexpr double kHalfPi[] = {0x1.921fb544p+0, 0x1.0b4611a6p-34, 0x1.3198a2e037073p-69};

constexpr int kTerms = 18;
constexpr auto kInverseFactorials = [] {
  std::array<double, kTerms + 1> inverse{};
  double factorial = 1;
  for (int n = 0; n <= kTerms; ++n) {
    inverse[n] = 1 / factorial;
    factorial *= n + 1;
  }
  return inverse;
}();

// Returns 1 / kFirst! + power / (kFirst + kStep)! + power^2 / (kFirst + 2 kStep)! + ... + power^n / kLast!.
template <int kFirst, int kLast, int kStep>
double series(double power) {
  double sum = kInverseFactorials[kLast];
  for (int n = kLast - kStep; n >= kFirst; n -= kStep) sum = kInverseFactorials[n] + power * sum;
  return sum;
}

// Returns e^x - 1 for |x| < 0.36.
double expm1_series(double x) {
  return x + x * x * series<2, 14, 1>(x);
}

constexpr auto kArtanhTwice = [] {
  std::array<double, 12> factors{};
  for (int i = 0; i < 12; ++i) factors[i] = 2.0 / (2 * i + 3);
  return factors;
}();

// Returns ln(1 + f) - f + f^2 / 2 for 1 + f in [sqrt(1/2), sqrt(2)], by the series of 2 artanh(s), s = f / (2 + f).
double log_remainder(double f) {
  const double s = f / (2 + f), z = s * s;
  double sum = 0;
  for (int i = 11; i >= 0; --i) sum = kArtanhTwice[i] + z * sum;
  return s * (f * f / 2 + z * sum);
}

struct Quadrant {
  double angle;  // in [-pi/4, pi/4]
  int index;     // x = index * pi / 2 + angle, modulo 2 pi
};
Quadrant quadrant_of(double x) {
  constexpr double kLargest = 0x1p52;
  if (!(std::fabs(x) < kLargest)) return {std::numeric_limits<double>::quiet_NaN(), 0};
  const double n = std::floor(x * (2 / std::numbers::pi) + 0.5);
  const double angle = ((x - n * kHalfPi[0]) - n * kHalfPi[1]) - n * kHalfPi[2];
  return {angle, static_cast<int>(n - 4 * std::floor(n / 4))};
}

// Returns the sine of `angle` in [-pi/4, pi/4] plus `index` quarters of a turn.
double sine(int index, double angle) {
  const double z = -angle * angle;
  const double value = index % 2 == 0 ? angle + angle * z * series<3, 17, 2>(z) : 1 + z * series<2, 18, 2>(z);
  return index % 4 < 2 ? value : -value;
}

}  // namespace

double ordered_exp(double x) {
  constexpr double kLargest = 709.79, kSmallest = -745.2;
  if (!(x < kLargest)) return x * std::numeric_limits<double>::max();  // infinity or NaN
  if (x < kSmallest) return 0;
  const double n = std::floor(x * std::numbers::log2e + 0.5);
  return std::ldexp(1 + expm1_series((x - n * kLn2[0]) - n * kLn2[1]), static_cast<int>(n));
}

double ordered_expm1(double x) {
  constexpr double kSeriesRange = 0.35;
  return std::fabs(x) < kSeriesRange ? expm1_series(x) : ordered_exp(x) - 1;
}

double ordered_log(double x) {
  if (x == 0) return -std::numeric_limits<double>::infinity();
  if (!(x > 0)) return std::numeric_limits<double>::quiet_NaN();
  if (std::isinf(x)) return x;
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);
  if (mantissa < std::numbers::sqrt2 / 2) {
    mantissa *= 2;
    --exponent;
  }
  const double f = mantissa - 1, e = exponent;
  return e * kLn2[0] - ((f * f / 2 - (log_remainder(f) + e * kLn2[1])) - f);
}

double ordered_log1p(double x) {
  const double rounded = 1 + x, lost = x - (rounded - 1);
  return ordered_log(rounded) + lost / rounded;
}

double ordered_pow(double x, double y) {
  if (y == 0) return 1;
  return x == 0 ? 0 : ordered_exp(y * ordered_log(x));
}

double ordered_tanh(double x) {
  constexpr double kOne = 20;  // from here on the result is 1
  if (std::fabs(x) > kOne) return std::copysign(1.0, x);
  const double t = ordered_expm1(2 * std::fabs(x));
  return std::copysign(t / (t + 2), x);
}

double ordered_sin(double x) {
  const Quadrant q = quadrant_of(x);
  return sine(q.index, q.angle);
}
double ordered_cos(double x) {
  const Quadrant q = quadrant_of(x);
  return sine(q.index + 1, q.angle);
}

}  // namespace moescope
