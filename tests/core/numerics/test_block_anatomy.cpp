// The anatomy of a block against the quantizer, against blocks worked by hand, and the lessons that outliers teach.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "core/numerics/block_anatomy.h"
#include "core/numerics/quantize.h"
#include "core/numerics/rng.h"
#include "tests/support/every_format.h"

namespace moescope {
namespace {

std::string joined(const BlockAnatomy& block) {
  std::string all;
  for (const std::string& line : block.derivation) all += line + "\n";
  return all;
}

TEST(BlockAnatomy, AgreesWithTheQuantizerForEveryFormatAndRule) {
  for (const ElementFormat element : kEveryFormat)
    for (const ScaleRule rule : kEveryRule)
      for (const double sigma : {1.0, 1e-30, 1e30, 1e-42}) {
        const std::vector<float> x = normal_values(32, sigma, static_cast<int>(rule) + 7);
        const OperandFormat format = mx_format(element, rule, 32);
        std::vector<float> q(32);
        QuantSums sums;
        quantize_operand({{x.data(), 1, 32, 32}, format, BlockAxis::row, {}, &sums}, {q.data(), 1, 32});
        const BlockAnatomy block = block_anatomy(format, x);
        for (int i = 0; i < 32; ++i) {
          EXPECT_EQ(block.elements[i].dequantized, q[i]);
          EXPECT_EQ(block.elements[i].fields.code, encode(element, block.elements[i].scaled));
        }
        EXPECT_EQ(block.sums.underflow, sums.underflow);
        EXPECT_EQ(block.sums.clipped, sums.clipped);
        EXPECT_EQ(block.sums.clipped_blocks, sums.clipped_blocks);
        EXPECT_EQ(block.sums.e8m0_blocks, sums.e8m0_blocks);
        EXPECT_NEAR(block.sums.err2, sums.err2, 1e-5 * sums.err2);
        EXPECT_NEAR(block.sums.mean_crest(), sums.mean_crest(), 1e-5);
      }
}

TEST(BlockAnatomy, WorkedByHand) {
  // amax 448 is E4M3's largest: scale 1. 0.3 lies between 0.28125 and 0.3125, nearer to the latter.
  const std::vector<float> x = {448, 0.3f, -5.5f, 0x1p-10f, 0x1.8p-10f, 0};
  const BlockAnatomy block = block_anatomy(mx_format(ElementFormat::e4m3), x);
  EXPECT_EQ(block.scale.code, 127);
  EXPECT_EQ(block.amax_at, 0);
  const ElementAnatomy& e = block.elements[1];
  EXPECT_EQ(e.grid.below, 0.28125f);
  EXPECT_EQ(e.grid.above, 0.3125f);
  EXPECT_EQ(e.fields.exponent, 5);  // 2^(5 - 7) x (1 + 2/8)
  EXPECT_EQ(e.fields.mantissa, 2);
  EXPECT_EQ(e.decoded, 0.3125f);
  EXPECT_NEAR(e.error, 0.0125, 1e-7);
  EXPECT_NEAR(e.probability_up, 0.6, 1e-6);
  EXPECT_EQ(block.elements[2].fields.formula, "- 2^(9 - 7) x (1 + 3/8) = -5.5");
  // Half the smallest subnormal is a tie, which becomes zero; three quarters of it are rounded up.
  EXPECT_TRUE(block.elements[3].underflow);
  EXPECT_EQ(block.elements[4].fields.kind, CodeKind::subnormal);
  EXPECT_FALSE(block.elements[5].underflow);
  EXPECT_EQ(block.sums.underflow, 1u);
}

TEST(BlockAnatomy, FloorClipsWhereRceilDoesNot) {
  std::vector<float> x(32, 0.5f);
  x[3] = 1.9f;
  const BlockAnatomy floor = block_anatomy(mx_format(ElementFormat::e4m3, ScaleRule::floor, 32), x);
  const BlockAnatomy rceil = block_anatomy(mx_format(ElementFormat::e4m3, ScaleRule::rceil, 32), x);
  EXPECT_EQ(floor.scale.code, 119);
  EXPECT_EQ(rceil.scale.code, 120);
  EXPECT_TRUE(floor.elements[3].clipped);
  EXPECT_EQ(floor.elements[3].dequantized, 1.75f);
  EXPECT_FALSE(rceil.elements[3].clipped);
  EXPECT_EQ(rceil.sums.clipped, 0u);
  EXPECT_NE(joined(floor).find("k = 0 - 8 = -8"), std::string::npos) << joined(floor);
  EXPECT_NE(joined(floor).find("it clips"), std::string::npos) << joined(floor);
  EXPECT_NE(joined(rceil).find("rounds up to the next power of two: 2^-7"), std::string::npos) << joined(rceil);
  EXPECT_NE(joined(rceil).find("byte 120, scale 2^-7"), std::string::npos) << joined(rceil);
}

// The vectors of torchao's rules for E4M3: amax -> byte by FLOOR, RCEIL, EVEN, CEIL.
TEST(BlockAnatomy, DerivationNamesTheByteOfTheRule) {
  struct Case {
    float amax;
    int bytes[4];
  };
  for (const Case& c : {Case{1, {119, 119, 119, 119}}, Case{1.75f, {119, 119, 119, 120}},
                        Case{1.7578125f, {119, 120, 119, 120}}, Case{1.9375f, {119, 120, 120, 120}},
                        Case{448, {127, 127, 127, 128}}, Case{449, {127, 128, 127, 128}}, Case{0, {0, 0, 0, 0}}})
    for (int rule = 0; rule < 4; ++rule) {
      const std::vector<float> x = {c.amax, 0};
      const BlockAnatomy block = block_anatomy(mx_format(ElementFormat::e4m3, static_cast<ScaleRule>(rule), 32), x);
      EXPECT_EQ(block.scale.code, c.bytes[rule]) << c.amax << " rule " << rule;
      EXPECT_NE(joined(block).find("byte " + std::to_string(c.bytes[rule])), std::string::npos) << joined(block);
    }
}

TEST(BlockAnatomy, NanAndInfinityTakeTheWholeBlock) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> x(32, 1.0f);
    x[7] = bad;
    const BlockAnatomy block = block_anatomy(mx_format(ElementFormat::e4m3), x);
    EXPECT_EQ(block.scale.code, 255);
    EXPECT_EQ(block.amax_at, 7);
    for (const ElementAnatomy& e : block.elements) EXPECT_TRUE(std::isnan(e.dequantized));
    EXPECT_NE(joined(block).find("byte 255"), std::string::npos);
    EXPECT_EQ(block.sums.underflow, 0u);
  }
}

TEST(BlockAnatomy, FieldsComposeToEveryCode) {
  for (const ElementFormat format : kEveryFormat)
    for (int code = 0; code < 1 << traits(format).bits; ++code) {
      const CodeFields f = code_fields(format, static_cast<std::uint8_t>(code));
      const int mantissa_bits = format == ElementFormat::int8 ? 7 : traits(format).mantissa_bits;
      EXPECT_EQ((f.sign << (traits(format).bits - 1)) | (f.exponent << mantissa_bits) | f.mantissa, code);
      if (f.kind == CodeKind::subnormal) {
        EXPECT_LT(std::fabs(f.value), traits(format).min_normal);
      } else if (f.kind == CodeKind::normal && format != ElementFormat::int8) {
        EXPECT_GE(std::fabs(f.value), traits(format).min_normal);
      }
    }
  EXPECT_EQ(code_fields(ElementFormat::e4m3, 0x7F).kind, CodeKind::nan);
  EXPECT_EQ(code_fields(ElementFormat::e5m2, 0xFC).kind, CodeKind::infinity);
}

TEST(BlockAnatomy, CountsOfRepresentableValues) {
  EXPECT_EQ(representable_values(ElementFormat::e4m3).size(), 253u);  // 256 - 2 NaN - one of the zeros
  EXPECT_EQ(representable_values(ElementFormat::e5m2).size(), 247u);  // 256 - 6 NaN - 2 infinities - one zero
  EXPECT_EQ(representable_values(ElementFormat::e2m1).size(), 15u);
  EXPECT_EQ(representable_values(ElementFormat::int8).size(), 256u);
  const Neighbours outside = neighbours(ElementFormat::e4m3, 1e9f);
  EXPECT_EQ(outside.below, 448.0f);
  EXPECT_EQ(outside.above, 448.0f);
  EXPECT_EQ(neighbours(ElementFormat::int8, -5.0f).below, -127.0f / 64);
}

TEST(BlockAnatomy, NearestEvenPicksANeighbourNoFartherThanTheOther) {
  const std::vector<float> x = normal_values(512);
  for (const ElementFormat format : kEveryFormat)
    for (const ElementAnatomy& e : block_anatomy(mx_format(format, ScaleRule::floor, 512), x).elements) {
      EXPECT_TRUE(e.decoded == e.grid.below || e.decoded == e.grid.above);
      EXPECT_LE(std::fabs(e.decoded - e.scaled),
                std::min(std::fabs(e.grid.below - e.scaled), std::fabs(e.grid.above - e.scaled)));
    }
}

TEST(BlockAnatomy, StochasticRoundingIsUnbiasedAndReproducible) {
  const std::vector<float> x = {1.0f, 0.3f, -0.2f, 0.013f};
  OperandFormat format = mx_format(ElementFormat::e2m1);
  format.rounding = Rounding::stochastic;
  std::vector<double> mean(x.size());
  constexpr int kDraws = 20000;
  for (int draw = 0; draw < kDraws; ++draw) {
    const BlockAnatomy block = block_anatomy(format, x, draw);
    for (std::size_t i = 0; i < x.size(); ++i) mean[i] += block.elements[i].dequantized / kDraws;
  }
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(mean[i], x[i], 0.005) << i;
  const auto once = block_anatomy(format, x, 5);
  const auto second = block_anatomy(format, x, 5);
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(once.elements[i].fields.code, second.elements[i].fields.code);
}

// Compares with the quantizer's values, block by block, for tensors of any range.
TEST(BlockAnatomy, Nvfp4IsTheQuantizers) {
  constexpr std::size_t kRows = 6, kCols = 72;  // the last block of a row is short
  std::mt19937 rng(3);
  std::normal_distribution<float> normal;
  for (int choice = 0; choice < 12; ++choice) {
    const float spread = std::array{0.0f, 1.0f, 6.0f}[static_cast<std::size_t>(choice % 3)];
    OperandFormat format = kNvfp4Format;
    format.nvfp4.rule = static_cast<Nvfp4Rule>(choice / 3);
    std::vector<float> x(kRows * kCols), out(x.size());
    for (float& v : x) v = normal(rng) * std::exp2(spread * normal(rng));
    std::fill_n(x.begin() + 16, 16, 0.0f);
    QuantSums expected, sums;
    quantize_operand({{x.data(), kRows, kCols, kCols}, format, BlockAxis::row, {}, &expected},
                     {out.data(), kRows, kCols});
    float amax = 0;
    for (const float value : x) amax = larger_amax(amax, std::fabs(value));
    for (std::size_t r = 0; r < kRows; ++r)
      for (std::size_t c = 0; c < kCols; c += 16) {
        const std::size_t n = std::min<std::size_t>(16, kCols - c);
        const BlockAnatomy block = block_anatomy(format, std::span(x).subspan(r * kCols + c, n), 0, amax);
        for (std::size_t i = 0; i < n; ++i)
          EXPECT_EQ(std::bit_cast<std::uint32_t>(block.elements[i].dequantized),
                    std::bit_cast<std::uint32_t>(out[r * kCols + c + i]))
              << format_name(format) << ' ' << spread << ' ' << r << ' ' << c + i;
        EXPECT_FALSE(block.derivation.empty());
        sums.add(block.sums);
      }
    EXPECT_EQ(sums.e8m0_blocks, expected.e8m0_blocks);
    EXPECT_EQ(sums.underflow, expected.underflow);
    EXPECT_EQ(sums.clipped, expected.clipped);
    EXPECT_NEAR(sums.sqnr_db(), expected.sqnr_db(), 1e-4);
  }
}

TEST(BlockAnatomy, Nvfp4WithoutANumberHasNoScale) {
  std::vector<float> x(16, 1.0f);
  EXPECT_TRUE(block_anatomy(kNvfp4Format, x, 0, INFINITY).is_nan());
  x[3] = NAN;
  const BlockAnatomy block = block_anatomy(kNvfp4Format, x);
  EXPECT_TRUE(block.is_nan());
  EXPECT_TRUE(std::isnan(block.elements[0].dequantized));
  EXPECT_EQ(block.sums.e8m0_blocks[255], 1u);
}

}  // namespace
}  // namespace moescope
