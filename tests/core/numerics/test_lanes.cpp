#include <gtest/gtest.h>

#include <vector>

#include "core/numerics/kernels/lanes.h"
#include "core/numerics/kernels/simd.h"
#include "core/numerics/kernels/softmax_row.h"

namespace moescope {
namespace {

MOESCOPE_SIMD void exp_of(const float* x, float* y) {
  store<float>(y, exp_lanes(load(x)));
}
MOESCOPE_SIMD float softmax_of(const float* in, int n, float scale, float* out) {
  return softmax_row(in, n, scale, out);
}
MOESCOPE_SIMD float dot_of(const float* a, const float* b, int n) {
  return dot(a, b, n);
}

float exp_at(float x) {
  float in[16], out[16];
  std::fill_n(in, 16, x);
  exp_of(in, out);
  return out[7];
}

TEST(ExpLanes, IsWithinTwoUlp) {
  double worst = 0;
  float x[16], y[16];
  // Every 61st float of both signs up to the ends of the range.
  for (const float end : {87.0f, 88.7f})
    for (std::uint32_t bits = 0; bits < std::bit_cast<std::uint32_t>(end); bits += 61 * 16) {
      for (std::uint32_t i = 0; i < 16; ++i) {
        const float magnitude = std::min(std::bit_cast<float>(bits + 61 * i), end);
        x[i] = end == 87.0f ? -magnitude : magnitude;
      }
      exp_of(x, y);
      for (int i = 0; i < 16; ++i) {
        const double exact = std::exp(static_cast<double>(x[i]));
        const double ulp = std::ldexp(1.0, std::ilogb(exact) - 23);
        worst = std::max(worst, std::fabs(static_cast<double>(y[i]) - exact) / ulp);
      }
    }
  EXPECT_LT(worst, 2.0);
}

TEST(ExpLanes, Ends) {
  EXPECT_EQ(exp_at(0.0f), 1.0f);
  EXPECT_EQ(exp_at(-INFINITY), 0.0f);
  EXPECT_EQ(exp_at(-1000.0f), 0.0f);
  EXPECT_EQ(exp_at(INFINITY), INFINITY);
  EXPECT_EQ(exp_at(1000.0f), INFINITY);
  EXPECT_TRUE(std::isnan(exp_at(NAN)));
}

TEST(SoftmaxRow, AnyLengthSumsToOneAndGivesLogSumExp) {
  for (const int n : {1, 5, 15, 16, 17, 40, 256}) {
    std::vector<float> in(static_cast<std::size_t>(n)), out(in.size() + 1, -7.0f);
    double sum = 0;
    for (int i = 0; i < n; ++i) {
      in[static_cast<std::size_t>(i)] = static_cast<float>((i * 37) % 11) - 30.0f;
      sum += std::exp(0.5 * static_cast<double>(in[static_cast<std::size_t>(i)]));
    }
    EXPECT_NEAR(softmax_of(in.data(), n, 0.5f, out.data()), std::log(sum), 2e-6);
    for (int i = 0; i < n; ++i) {
      const double exact = std::exp(0.5 * static_cast<double>(in[static_cast<std::size_t>(i)])) / sum;
      EXPECT_NEAR(static_cast<double>(out[static_cast<std::size_t>(i)]) / exact, 1, 2e-6) << n;
    }
    EXPECT_EQ(out.back(), -7.0f);  // nothing is written past the row
  }
}

TEST(SoftmaxRow, LargeValuesDoNotOverflow) {
  const std::vector<float> in = {1000.0f, 999.0f, -1000.0f};
  std::vector<float> out(3);
  EXPECT_FLOAT_EQ(softmax_of(in.data(), 3, 1.0f, out.data()), 1000.0f + std::log1p(std::exp(-1.0f)));
  EXPECT_FLOAT_EQ(out[0], 1 / (1 + std::exp(-1.0f)));
  EXPECT_EQ(out[2], 0.0f);
}

TEST(Dot, CountsEveryElementOnce) {
  const std::vector<float> ones(40, 1.0f);
  for (int n = 0; n <= 40; ++n) EXPECT_EQ(dot_of(ones.data(), ones.data(), n), static_cast<float>(n));
}

}  // namespace
}  // namespace moescope
