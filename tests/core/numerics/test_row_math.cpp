#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/numerics/kernels/row_math.h"

namespace moescope {
namespace {

TEST(SigmoidRow, FollowsTheDefinitionToTheEndsOfItsRange) {
  std::vector<float> in, out;
  for (float x = -100; x <= 100; x += 0.37f) in.push_back(x);
  in.insert(in.end(), {-INFINITY, INFINITY, 0.0f});
  out.resize(in.size());
  sigmoid_row(in.data(), in.size(), out.data());
  for (std::size_t i = 0; i < in.size(); ++i) {
    const double exact = 1 / (1 + std::exp(-static_cast<double>(in[i])));
    EXPECT_NEAR(static_cast<double>(out[i]), exact, exact * 4e-7 + 1e-38) << in[i];
  }
  const float nan = NAN;
  sigmoid_row(&nan, 1, out.data());
  EXPECT_TRUE(std::isnan(out[0]));
}

TEST(SoftmaxRow, AnyLengthSumsToOneAndGivesLogSumExp) {
  for (const std::size_t n : {1, 5, 15, 16, 17, 40, 256}) {
    std::vector<float> in(n), out(n + 1, -7.0f);
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) {
      in[i] = static_cast<float>((i * 37) % 11) - 30.0f;
      sum += std::exp(0.5 * static_cast<double>(in[i]));
    }
    EXPECT_NEAR(softmax_row(in.data(), n, 0.5f, out.data()), std::log(sum), 2e-6);
    for (std::size_t i = 0; i < n; ++i) {
      const double exact = std::exp(0.5 * static_cast<double>(in[i])) / sum;
      EXPECT_NEAR(static_cast<double>(out[i]) / exact, 1, 2e-6) << n;
    }
    EXPECT_EQ(out.back(), -7.0f);  // nothing is written past the row
  }
}

TEST(SoftmaxRow, LargeValuesDoNotOverflow) {
  const std::vector<float> in = {1000.0f, 999.0f, -1000.0f};
  std::vector<float> out(3);
  EXPECT_FLOAT_EQ(softmax_row(in.data(), 3, 1.0f, out.data()), 1000.0f + std::log1p(std::exp(-1.0f)));
  EXPECT_FLOAT_EQ(out[0], 1 / (1 + std::exp(-1.0f)));
  EXPECT_EQ(out[2], 0.0f);
}

// p = exp(s) up to both ends of the range of float, and beyond them.
TEST(SoftmaxBackwardRow, ProbabilitiesHoldToBothEndsOfFloat) {
  std::vector<float> scores;
  for (float s = -87.3f; s < 88.72f; s += 0.0101f) scores.push_back(s);
  for (const float end : {88.37f, 88.7228317f})
    for (float s = end; s > end - 1e-4f; s = std::nextafter(s, 0.0f)) scores.push_back(s);
  scores.resize(scores.size() / 16 * 16);
  std::vector<float> p = scores, dp(p.size(), 0.0f);
  softmax_backward_row(p.data(), dp.data(), p.size(), 1.0f, 0.0f, 0.0f);
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double exact = std::exp(static_cast<double>(scores[i]));
    EXPECT_NEAR(static_cast<double>(p[i]) / exact, 1, 3e-7) << scores[i];
  }
  std::vector<float> ends(16, -87.31f), unused(16, 0.0f);
  ends[1] = -INFINITY;
  ends[2] = -1e30f;
  ends[3] = 88.7228394f;
  ends[4] = 1e30f;
  ends[5] = INFINITY;
  ends[6] = NAN;
  softmax_backward_row(ends.data(), unused.data(), 16, 1.0f, 0.0f, 0.0f);
  for (const std::size_t zero : {0, 1, 2}) EXPECT_EQ(ends[zero], 0.0f) << zero;
  for (const std::size_t infinite : {3, 4, 5}) EXPECT_EQ(ends[infinite], INFINITY) << infinite;
  EXPECT_TRUE(std::isnan(ends[6]));
}

TEST(Dot, CountsEveryElementOnce) {
  const std::vector<float> ones(40, 1.0f);
  for (std::size_t n = 0; n <= 40; ++n) EXPECT_EQ(dot(ones.data(), ones.data(), n), static_cast<float>(n));
}

TEST(AddScaled, IsRoundedOnceAndStaysInTheRow) {
  const float third = 1.0f / 3, x = 3.0f;  // 3 * float(1/3) - 1 is 2^-25 exactly; rounded first it would be 0
  for (const std::size_t n : {1, 16, 19}) {
    const std::vector<float> in(n, x);
    std::vector<float> out(n + 1, -1.0f);
    add_scaled(third, in.data(), n, out.data());
    for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(out[i], 0x1p-25f) << n;
    EXPECT_EQ(out[n], -1.0f);
  }
}

// The processor's instruction, if it has one, rounds as the loop over lanes does; every exponent, and ties.
TEST(RoundForUnits, GivesTheSameNumbersInBf16AsInFloat) {
  std::vector<float> values;
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper)
    for (const std::uint32_t lower : {0x0000u, 0x0001u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu})
      values.push_back(std::bit_cast<float>(upper << 16 | lower));
  const std::size_t n = values.size() - 3;  // not a multiple of the lanes
  std::vector<float> rounded(n);
  std::vector<Bf16> narrow(n + 1, 0xABCD);
  round_to_unit_bf16(values.data(), n, rounded.data());
  round_to_unit_bf16(values.data(), n, narrow.data());
  for (std::size_t i = 0; i < n; ++i)
    ASSERT_EQ(static_cast<std::uint32_t>(narrow[i]) << 16, std::bit_cast<std::uint32_t>(rounded[i])) << values[i];
  EXPECT_EQ(narrow[n], 0xABCD) << "beyond the row";
}

TEST(RoundForUnits, ZeroesWhatUnitsWould) {
  const std::vector<float> values = {0x1p-126f, 0x1.fffffcp-127f, -0x1p-127f, 0x1.01p0f, 0x1.03p0f};
  std::vector<float> rounded(values.size());
  round_to_unit_bf16(values.data(), values.size(), rounded.data());
  EXPECT_EQ(rounded, (std::vector<float>{0x1p-126f, 0, 0, 1, 0x1.04p0f}));
}

}  // namespace
}  // namespace moescope
