#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "core/frame/frame.h"
#include "core/recording/history/pyramid.h"

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
  PyramidBin expected;
  for (std::size_t i = first; i < last; ++i) expected.add(values[i]);
  ASSERT_EQ(bin.finite, expected.finite);
  ASSERT_EQ(bin.non_finite, expected.non_finite);
  ASSERT_EQ(bin.missing, expected.missing);
  ASSERT_EQ(bin.finite + bin.non_finite + bin.missing, last - first);
  if (!expected.finite) return;
  ASSERT_EQ(bin.min, expected.min);
  ASSERT_EQ(bin.max, expected.max);
  ASSERT_NEAR(bin.sum, expected.sum, 1e-9 * (1 + 100.0 * expected.finite));
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

// Compares slices after random appends and rewinds with plain sums over the values.
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
    std::size_t expected_end = end;
    while (expected_end > 0 && is_missing(values[expected_end - 1])) --expected_end;
    ASSERT_EQ(pyramid.last_present(end), expected_end == 0 ? Pyramid::kNone : expected_end - 1) << end;
  }
}

// After forgetting, whole bins stay exact, nothing is lost or counted twice, and values can be appended, also after a
// rewind into the forgotten part.
TEST(Pyramid, ForgetsFromBelow) {
  for (unsigned seed = 0; seed < 8; ++seed) {
    std::mt19937 rng(seed);
    Pyramid pyramid;
    std::vector<float> values;
    const auto grow = [&](int count) {
      for (int i = 0; i < count; ++i) {
        values.push_back(random_value(rng));
        pyramid.append(values.back());
      }
    };
    grow(200'000);
    const std::size_t before = pyramid.bytes();
    for (int i = 0; i < 6; ++i) pyramid.forget_older_half();
    EXPECT_LT(pyramid.bytes(), before / 6);
    expect_same(pyramid.slice(0, values.size()), values, 0, values.size());
    for (std::size_t first = 0; first + 4096 * 3 <= values.size(); first += 4096 * 7)
      expect_same(pyramid.slice(first, first + 4096 * 3), values, first, first + 4096 * 3);
    expect_same(pyramid.slice(values.size() - 900, values.size()), values, values.size() - 900, values.size());
    std::uint32_t counted = 0;  // over slices that fit no bin
    for (std::size_t first = 0; first < values.size(); first += 77) {
      const PyramidBin bin = pyramid.slice(first, std::min(first + 77, values.size()));
      counted += bin.finite + bin.non_finite + bin.missing;
    }
    EXPECT_EQ(counted, values.size());

    const std::size_t back = 3000 + rng() % 100'000;
    values.resize(back);
    pyramid.truncate(back);
    const std::size_t whole = back / 4096 * 4096;
    expect_same(pyramid.slice(0, whole), values, 0, whole);
    grow(50'000);
    ASSERT_EQ(pyramid.size(), values.size());
    const std::size_t after = back / 4096 * 4096 + 4096;
    expect_same(pyramid.slice(after, values.size()), values, after, values.size());
    ASSERT_NE(pyramid.last_present(values.size()), Pyramid::kNone);
  }
}

TEST(Pyramid, StaysSmallForAnyLength) {
  Pyramid pyramid;
  for (int i = 0; i < 3 << 20; ++i) {
    pyramid.append(static_cast<float>(i));
    while (pyramid.bytes() > 600'000 && pyramid.forget_older_half()) {
    }
    if (i % 65536 == 0) {
      ASSERT_LE(pyramid.bytes(), 600'000u);
    }
  }
  EXPECT_EQ(pyramid.slice(0, pyramid.size()).finite, 3u << 20);
  EXPECT_EQ(pyramid.slice(0, pyramid.size()).max, static_cast<float>((3 << 20) - 1));
  EXPECT_NEAR(pyramid[1000], 1000, 4096);
  EXPECT_EQ(pyramid[(3 << 20) - 5], static_cast<float>((3 << 20) - 5));
}

TEST(Pyramid, TakesAboutSixBytesAValue) {
  Pyramid pyramid;
  for (int i = 0; i < 1 << 20; ++i) pyramid.append(1);
  EXPECT_LE(pyramid.bytes(), std::size_t{7} << 20);
  EXPECT_EQ(pyramid.slice(0, pyramid.size()).finite, 1u << 20);
}

}  // namespace
}  // namespace moescope
