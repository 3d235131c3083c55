#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "core/telemetry/frame.h"
#include "core/telemetry/pyramid.h"

namespace moescope {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

float random_value(std::mt19937& rng) {
  switch (rng() % 10) {
    case 0:
      return kNoValue;
    case 1:
      return std::sqrt(-1.0f);
    case 2:
      return rng() % 2 ? kInf : -kInf;
    default:
      return std::uniform_real_distribution<float>(-100, 100)(rng);
  }
}

void expect_same(const PyramidBin& bin, const std::vector<float>& values, std::size_t first, std::size_t last) {
  PyramidBin wanted;
  for (std::size_t i = first; i < last; ++i) wanted.add(values[i]);
  ASSERT_EQ(bin.finite, wanted.finite);
  ASSERT_EQ(bin.non_finite, wanted.non_finite);
  ASSERT_EQ(bin.missing, wanted.missing);
  ASSERT_EQ(bin.finite + bin.non_finite + bin.missing, last - first);
  if (!wanted.finite) return;
  ASSERT_EQ(bin.min, wanted.min);
  ASSERT_EQ(bin.max, wanted.max);
  ASSERT_NEAR(bin.sum, wanted.sum, 1e-9 * (1 + 100.0 * wanted.finite));
}

TEST(Pyramid, TellsMissingFromNaN) {
  PyramidBin bin;
  for (const float v : {1.0f, kNoValue, std::numeric_limits<float>::quiet_NaN(), kInf, 3.0f}) bin.add(v);
  EXPECT_EQ(bin.missing, 1u);
  EXPECT_EQ(bin.non_finite, 2u);
  EXPECT_EQ(bin.finite, 2u);
  EXPECT_EQ(bin.mean(), 2.0f);
  EXPECT_EQ(bin.min, 1.0f);
  EXPECT_EQ(bin.max, 3.0f);
  EXPECT_TRUE(std::isnan(kNoValue));
}

// Random appends, rewinds and queries against the plain sum over the values.
TEST(Pyramid, SlicesAgreeWithBruteForce) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 rng(seed);
    Pyramid pyramid;
    std::vector<float> values;
    for (int round = 0; round < 30; ++round) {
      for (std::size_t n = rng() % 700; n > 0; --n) {
        values.push_back(random_value(rng));
        pyramid.append(values.back());
      }
      if (rng() % 3 == 0 && !values.empty()) {
        values.resize(rng() % values.size());
        pyramid.truncate(values.size());
      }
      ASSERT_EQ(pyramid.size(), values.size());
      for (int query = 0; query < 50; ++query) {
        std::size_t first = rng() % (values.size() + 1);
        std::size_t last = rng() % (values.size() + 1);
        if (last < first) std::swap(first, last);
        expect_same(pyramid.slice(first, last), values, first, last);
      }
    }
  }
}

TEST(Pyramid, FindsTheNewestValueBefore) {
  std::mt19937 rng(7);
  Pyramid pyramid;
  std::vector<float> values;
  for (int i = 0; i < 5000; ++i) {
    values.push_back(rng() % 97 == 0 && i > 600 ? 1.0f : kNoValue);
    pyramid.append(values.back());
  }
  for (std::size_t end = 0; end <= values.size(); ++end) {
    std::size_t wanted = end;
    while (wanted > 0 && is_missing(values[wanted - 1])) --wanted;
    ASSERT_EQ(pyramid.last_present(end), wanted == 0 ? Pyramid::kNone : wanted - 1) << end;
  }
}

TEST(Pyramid, TakesAboutSixBytesAValue) {
  Pyramid pyramid;
  for (int i = 0; i < 1 << 20; ++i) pyramid.append(1);
  EXPECT_LE(pyramid.bytes(), std::size_t{7} << 20);
  EXPECT_EQ(pyramid.slice(0, pyramid.size()).finite, 1u << 20);
}

}  // namespace
}  // namespace moescope
