#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "core/numerics/float_formats.h"
#include "core/numerics/kernels/float_rounding.h"
#include "tests/support/every_format.h"

using namespace moescope;

namespace {

// Returns the finite values of the codes without sign, in the order of the codes.
std::vector<double> magnitudes(ElementFormat format) {
  std::vector<double> values;
  for (int code = 0; code < 1 << (traits(format).bits - 1); ++code) {
    const float value = decode(format, static_cast<std::uint8_t>(code));
    if (std::isfinite(value)) values.push_back(value);
  }
  return values;
}

// Encodes by the definition: takes the nearest of all values, and of two equally near ones that with the even code.
std::uint8_t nearest_by_search(ElementFormat format, const std::vector<double>& values, float x) {
  const double magnitude = std::min(std::fabs(static_cast<double>(x)), 4 * values.back());  // differences stay exact
  std::size_t best = 0;
  for (std::size_t code = 1; code < values.size(); ++code) {
    const double nearer = std::fabs(values[code] - magnitude) - std::fabs(values[best] - magnitude);
    if (nearer < 0 || (nearer == 0 && code % 2 == 0)) best = code;
  }
  if (!std::signbit(x)) return static_cast<std::uint8_t>(best);
  if (format == ElementFormat::int8) return static_cast<std::uint8_t>(-static_cast<int>(best));
  return static_cast<std::uint8_t>(best | 1u << (traits(format).bits - 1));
}

}  // namespace

TEST(FloatFormats, TraitsAgreeWithTheDecodedValues) {
  for (const ElementFormat format : kEveryFormat) {
    const FormatTraits& t = traits(format);
    const std::vector<double> values = magnitudes(format);
    EXPECT_EQ(values.back(), t.max) << t.name;
    EXPECT_EQ(values[1], t.min_subnormal) << t.name;
    EXPECT_EQ(values[std::size_t{1} << t.mantissa_bits], t.min_normal) << t.name;
    EXPECT_EQ(std::ilogb(t.max), t.emax) << t.name;
    EXPECT_EQ(element_named(t.name), format);
  }
  EXPECT_FALSE(element_named("e4m4"));
}

TEST(FloatFormats, SpecialCodes) {
  EXPECT_TRUE(std::isnan(decode(ElementFormat::e4m3, 0x7F)) && std::isnan(decode(ElementFormat::e4m3, 0xFF)));
  EXPECT_EQ(decode(ElementFormat::e5m2, 0x7C), kInf);
  EXPECT_EQ(decode(ElementFormat::e5m2, 0xFC), -kInf);
  EXPECT_TRUE(std::isnan(decode(ElementFormat::e5m2, 0xFD)));
  EXPECT_EQ(decode(ElementFormat::int8, 0x80), -2.0f);
  EXPECT_TRUE(std::signbit(decode(ElementFormat::e2m1, 0x8)));
}

TEST(FloatFormats, EveryNumberEncodesToItsOwnCode) {
  for (const ElementFormat format : kEveryFormat) {
    for (int code = 0; code < 1 << traits(format).bits; ++code) {
      const float value = decode(format, static_cast<std::uint8_t>(code));
      if (!std::isfinite(value) || value == -2.0f * (format == ElementFormat::int8)) continue;
      EXPECT_EQ(encode(format, value), code) << traits(format).name;
    }
  }
}

// Inputs are every value and every midpoint, the float32 next to each on both sides, and random bits.
TEST(FloatFormats, EncodeIsTheNearestOfAllValues) {
  std::mt19937 random(7);
  for (const ElementFormat format : kEveryFormat) {
    const std::vector<double> values = magnitudes(format);
    std::vector<float> inputs = {0.0f, 1e-45f, 1e-38f, 1e38f, kInf, std::numeric_limits<float>::max()};
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double above = i + 1 < values.size() ? values[i + 1] : 2 * values[i] - values[i - 1];
      for (const double v : {values[i], (values[i] + above) / 2})
        for (const float towards : {0.0f, static_cast<float>(v), kInf})
          inputs.push_back(std::nextafter(static_cast<float>(v), towards));
    }
    for (int i = 0; i < 20000; ++i) {
      const float any = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
      if (!std::isnan(any)) inputs.push_back(any);
      inputs.push_back(std::ldexp(std::fmod(any, 2.0f), static_cast<int>(random() % 48) - 24));
    }
    for (const float x : inputs) {
      if (std::isnan(x)) continue;
      for (const float v : {x, -x})
        ASSERT_EQ(encode(format, v), nearest_by_search(format, values, v)) << traits(format).name << " " << v;
    }
  }
}

TEST(FloatFormats, NanAndOverflow) {
  const float nan = std::nanf("");
  EXPECT_EQ(encode(ElementFormat::e4m3, nan), 0x7F);
  EXPECT_EQ(encode(ElementFormat::e5m2, -nan), 0x7F);
  EXPECT_EQ(encode(ElementFormat::e3m2, nan), 0x1F);
  EXPECT_EQ(encode(ElementFormat::e2m1, nan), 0x07);
  EXPECT_EQ(encode(ElementFormat::int8, nan), 0);
}

TEST(FloatFormats, E8m0) {
  EXPECT_EQ(decode_e8m0(0), 0x1p-127f);
  EXPECT_EQ(decode_e8m0(254), 0x1p127f);
  EXPECT_TRUE(std::isnan(decode_e8m0(255)));
  EXPECT_EQ(decode_e8m0(127), 1.0f);
}

// Compares with the nearer of the two bfloat16 neighbors, by distances in double.
TEST(FloatFormats, Bf16IsTheNearerNeighbour) {
  std::mt19937 random(3);
  std::vector<float> in = {0.0f, -0.0f, 1.00390625f, 1.01171875f, std::numeric_limits<float>::denorm_min()};
  while (in.size() < 50000) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isfinite(x)) in.push_back(x);
  }
  std::vector<float> out(in.size());
  std::ranges::transform(in, out.begin(), bf16_rounded);
  for (std::size_t i = 0; i < in.size(); ++i) {
    const std::uint32_t below_bits = std::bit_cast<std::uint32_t>(in[i]) & 0xFFFF0000;
    const double below = std::bit_cast<float>(below_bits), above = std::bit_cast<float>(below_bits + 0x10000);
    const double to_below = std::fabs(in[i] - below);
    const double to_above = std::isinf(above) ? 0x1p128 - std::fabs(in[i]) : std::fabs(above - in[i]);
    const bool up = to_above < to_below || (to_above == to_below && (below_bits & 0x10000));
    ASSERT_EQ(std::bit_cast<std::uint32_t>(out[i]), below_bits + (up ? 0x10000 : 0)) << in[i];
  }
  EXPECT_TRUE(std::isnan(bf16_rounded(std::bit_cast<float>(0x7F800001u))));
  EXPECT_EQ(bf16_rounded(-kInf), -kInf);
}
