// Elementary functions against those of the C library in long double, and their bits against those of x86-64.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "core/lessons/digest.h"
#include "core/numerics/elementary.h"
#include "core/numerics/rng.h"

namespace moescope {
namespace {

struct Range {
  double low, high;
};

double ulps(double value, long double exact) {
  const double rounded = std::fabs(static_cast<double>(exact));
  const double ulp = std::nextafter(rounded, std::numeric_limits<double>::infinity()) - rounded;
  return static_cast<double>(std::fabs(static_cast<long double>(value) - exact)) / ulp;
}

void expect_close(double (*function)(double), long double (*exact)(long double), Range range) {
  const RandomStream stream(1, "elementary");
  for (int i = 0; i < 20000; ++i) {
    const double x = range.low + (range.high - range.low) * stream.uniform(i);
    ASSERT_LE(ulps(function(x), exact(static_cast<long double>(x))), 4) << x;
  }
}

TEST(Elementary, AreCloseToExact) {
  for (const Range range : {Range{-700, 700}, {-1, 1}}) expect_close(ordered_exp, expl, range);
  for (const Range range : {Range{-5, 5}, {-1e-3, 1e-3}}) expect_close(ordered_expm1, expm1l, range);
  for (const Range range : {Range{0, 2}, {0.9, 1.1}, {0, 1e300}}) expect_close(ordered_log, logl, range);
  for (const Range range : {Range{0, 1}, {0, 1e-9}, {0, 1e9}}) expect_close(ordered_log1p, log1pl, range);
  for (const Range range : {Range{-3, 3}, {-30, 30}, {-1e-3, 1e-3}}) expect_close(ordered_tanh, tanhl, range);
  for (const Range range : {Range{-7, 7}, {0, 1e6}}) {
    expect_close(ordered_sin, sinl, range);
    expect_close(ordered_cos, cosl, range);
  }
}

TEST(Elementary, PowersErrByTheirExponent) {
  const RandomStream stream(1, "powers");
  for (int i = 0; i < 20000; ++i) {
    const double x = 1e5 * stream.uniform(2 * i), y = 8 * stream.uniform(2 * i + 1) - 4;
    const long double exact = powl(static_cast<long double>(x), static_cast<long double>(y));
    ASSERT_LE(ulps(ordered_pow(x, y), exact), 4 + 2 * std::fabs(y * std::log(x))) << x << ' ' << y;
  }
}

TEST(Elementary, LimitsAndNumbersOutsideOfTheDomain) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(ordered_exp(800), kInfinity);
  EXPECT_EQ(ordered_exp(kInfinity), kInfinity);
  EXPECT_EQ(ordered_exp(-kInfinity), 0);
  EXPECT_EQ(ordered_exp(-745), std::exp(-745));
  EXPECT_EQ(ordered_log(0), -kInfinity);
  EXPECT_EQ(ordered_log(kInfinity), kInfinity);
  EXPECT_EQ(ordered_log(1), 0);
  EXPECT_TRUE(std::isnan(ordered_log(-1)));
  EXPECT_EQ(ordered_pow(0, 3), 0);
  EXPECT_EQ(ordered_pow(0, 0), 1);
  EXPECT_EQ(ordered_tanh(1000), 1);
  EXPECT_EQ(ordered_tanh(-1000), -1);
  EXPECT_EQ(ordered_cos(0), 1);
  for (const double x : {kInfinity, kNan, 1e300}) {
    EXPECT_TRUE(std::isnan(ordered_sin(x)));
    EXPECT_TRUE(std::isnan(ordered_cos(x)));
  }
  EXPECT_TRUE(std::isnan(ordered_exp(kNan)));
  EXPECT_TRUE(std::isnan(ordered_log(kNan)));
}

// Rounded to float the numbers of nearly every library agree; here every bit counts.
TEST(Elementary, BitsAreThoseOfEveryProcessor) {
  Digest digest;
  const auto add = [&](double value) {
    const float upper = static_cast<float>(value), lower = static_cast<float>(value - static_cast<double>(upper));
    const float halves[] = {upper, lower};
    digest.add(halves);
  };
  const RandomStream stream(1, "bits");
  for (int i = 0; i < 20000; ++i) {
    const double x = 20 * stream.uniform(i);
    for (const auto function :
         {ordered_exp, ordered_expm1, ordered_log, ordered_log1p, ordered_tanh, ordered_cos, ordered_sin})
      add(function(x));
    add(ordered_pow(x, 1.5 - x));
    add(stream.normal(i));
  }
  EXPECT_EQ(digest.text(), "a526dac728d2c0c1");
}

}  // namespace
}  // namespace moescope
