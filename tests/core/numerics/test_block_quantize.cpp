#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/numerics/quantize.h"
#include "core/numerics/scale_rules.h"
#include "tests/support/every_format.h"
#include "tests/support/sample_matrices.h"

using namespace moescope;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::string named(const OperandFormat& format) {
  return std::string(traits(format.element).name) + " " + scale_rule_name(format.rule) + " " +
         std::to_string(format.block);
}

// Quantizes one block by the definition in the header, with encode() and decode() and sums in double.
void quantize_by_definition(const OperandFormat& format, const std::vector<float>& x, std::vector<float>& q,
                            QuantSums& sums) {
  float amax = 0;
  bool finite = true;
  for (const float v : x) {
    finite = finite && std::isfinite(v);
    if (std::isfinite(v)) amax = std::max(amax, std::fabs(v));
    sums.nonzero += v != 0;
  }
  const std::uint8_t code = scale_code(format.rule, format.element, finite ? amax : kInf);
  sums.amax = std::max(sums.amax, amax);
  sums.elements += x.size();
  ++sums.blocks;
  ++sums.e8m0_blocks[code];
  q.assign(x.size(), kNan);
  if (code == 255) return;
  double x2 = 0;
  std::uint64_t clipped = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float y = std::ldexp(x[i], 127 - code);
    q[i] = std::ldexp(decode(format.element, encode(format.element, y)), code - 127);
    const double v = x[i], d = q[i];
    x2 += v * v;
    sums.q2 += d * d;
    sums.xq += v * d;
    sums.err2 += (v - d) * (v - d);
    sums.underflow += v != 0 && d == 0;
    clipped += std::fabs(y) > traits(format.element).max;
  }
  sums.x2 += x2;
  sums.clipped += clipped;
  sums.clipped_blocks += clipped > 0;
  sums.crest_blocks += amax > 0;
  if (amax > 0) sums.crest += amax / std::sqrt(x2 / static_cast<double>(x.size()));
}

TestMatrix by_definition(const OperandFormat& format, const TestMatrix& m, QuantSums& sums) {
  TestMatrix out = m;
  const std::size_t block = static_cast<std::size_t>(format.block);
  std::vector<float> q;
  for (std::size_t r = 0; r < m.rows; ++r) {
    for (std::size_t c = 0; c < m.cols; c += block) {
      const auto begin = m.v.begin() + static_cast<std::ptrdiff_t>(r * m.cols + c);
      const std::vector<float> x(begin, begin + static_cast<std::ptrdiff_t>(std::min(block, m.cols - c)));
      quantize_by_definition(format, x, q, sums);
      std::copy(q.begin(), q.end(), out.v.begin() + static_cast<std::ptrdiff_t>(r * m.cols + c));
    }
  }
  return out;
}

void expect_same_bits(const std::vector<float>& found, const std::vector<float>& want, const std::string& what) {
  ASSERT_EQ(found.size(), want.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (std::isnan(found[i]) && std::isnan(want[i])) continue;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(found[i]), std::bit_cast<std::uint32_t>(want[i]))
        << what << " [" << i << "] " << found[i] << " " << want[i];
  }
}

void expect_close(double found, double want, double tolerance, const std::string& what) {
  if (std::isfinite(want))
    EXPECT_NEAR(found, want, tolerance) << what;
  else
    EXPECT_EQ(found, want) << what;  // a decoded value may be infinite
}

void expect_same_sums(const QuantSums& found, const QuantSums& want, const std::string& what) {
  EXPECT_EQ(found.e8m0_blocks, want.e8m0_blocks) << what;
  EXPECT_EQ(found.amax, want.amax) << what;
  EXPECT_EQ(found.elements, want.elements) << what;
  EXPECT_EQ(found.nonzero, want.nonzero) << what;
  EXPECT_EQ(found.underflow, want.underflow) << what;
  EXPECT_EQ(found.clipped, want.clipped) << what;
  EXPECT_EQ(found.blocks, want.blocks) << what;
  EXPECT_EQ(found.clipped_blocks, want.clipped_blocks) << what;
  EXPECT_EQ(found.crest_blocks, want.crest_blocks) << what;
  expect_close(found.crest, want.crest, 1e-5 * want.crest, what);
  expect_close(found.xq, want.xq, 1e-6 * want.xq, what);
  expect_close(found.q2, want.q2, 1e-6 * want.q2, what);
  if (want.err2 == 0 || want.x2 == 0) {
    EXPECT_EQ(found.err2, want.err2) << what;
    EXPECT_EQ(found.x2, want.x2) << what;
  } else {
    expect_close(found.sqnr_db(), want.sqnr_db(), 1e-4, what);
  }
}

// Compares both axes, with and without statistics, with the definition.
void expect_definition(const OperandFormat& format, const TestMatrix& m, const std::string& what) {
  QuantSums want_sums;
  const TestMatrix want = by_definition(format, m, want_sums);
  const TestMatrix t = transposed(m);
  TestMatrix out = m, columns = t;
  QuantSums sums, column_sums;
  quantize_operand({m.view(), format, BlockAxis::row, {}}, {out.v.data(), m.rows, m.cols, out.cols});
  expect_same_bits(out.v, want.v, what + " rows");
  std::fill(out.v.begin(), out.v.end(), -1.0f);
  quantize_operand({m.view(), format, BlockAxis::row, {}, &sums}, {out.v.data(), m.rows, m.cols, out.cols});
  expect_same_bits(out.v, want.v, what + " rows with sums");
  expect_same_sums(sums, want_sums, what + " rows");
  quantize_operand({t.view(), format, BlockAxis::column, {}}, {columns.v.data(), t.rows, t.cols, columns.cols});
  expect_same_bits(transposed(columns).v, want.v, what + " columns");
  std::fill(columns.v.begin(), columns.v.end(), -1.0f);
  quantize_operand({t.view(), format, BlockAxis::column, {}, &column_sums},
                   {columns.v.data(), t.rows, t.cols, columns.cols});
  expect_same_bits(transposed(columns).v, want.v, what + " columns with sums");
  expect_same_sums(column_sums, want_sums, what + " columns");
}

QuantSums sums_of(const OperandFormat& format, const TestMatrix& m) {
  QuantSums sums;
  std::vector<float> out(m.v.size());
  quantize_operand({m.view(), format, BlockAxis::row, {}, &sums}, {out.data(), m.rows, m.cols});
  return sums;
}

}  // namespace

TEST(ScaleCode, WorkedExamplesE4m3) {
  struct Example {
    float amax;
    int floor, rceil, ceil, even;
  };
  const Example examples[] = {{1.0f, 119, 119, 119, 119},
                              {1.75f, 119, 119, 120, 119},
                              {1.7578125f, 119, 120, 120, 119},
                              {1.9375f, 119, 120, 120, 120},
                              {448.0f, 127, 127, 128, 127},
                              {449.0f, 127, 128, 128, 127},
                              {0.0f, 0, 0, 0, 0}};
  for (const Example& e : examples) {
    EXPECT_EQ(scale_code(ScaleRule::floor, ElementFormat::e4m3, e.amax), e.floor) << e.amax;
    EXPECT_EQ(scale_code(ScaleRule::rceil, ElementFormat::e4m3, e.amax), e.rceil) << e.amax;
    EXPECT_EQ(scale_code(ScaleRule::ceil, ElementFormat::e4m3, e.amax), e.ceil) << e.amax;
    EXPECT_EQ(scale_code(ScaleRule::even, ElementFormat::e4m3, e.amax), e.even) << e.amax;
  }
  for (const ScaleRule rule : kEveryRule) {
    EXPECT_EQ(scale_code(rule, ElementFormat::e4m3, kNan), 255);
    EXPECT_EQ(scale_code(rule, ElementFormat::e4m3, kInf), 255);
    EXPECT_EQ(scale_rule_name.find(scale_rule_name(rule)), rule);
  }
  EXPECT_FALSE(scale_rule_name.find("round"));
}

// Returns the scale code by the definitions in scale_rules.h.
int code_by_definition(ScaleRule rule, const FormatTraits& f, float amax) {
  if (!std::isfinite(amax)) return 255;
  const auto bits = std::bit_cast<std::uint32_t>(amax);
  const int exponent = static_cast<int>(bits >> 23), mantissa = static_cast<int>(bits & 0x7FFFFF);
  const auto clamped = [](int code) { return std::clamp(code, 0, 254); };
  switch (rule) {
    case ScaleRule::floor:
      return clamped(exponent - f.emax);
    case ScaleRule::ceil:
      return clamped(exponent + (mantissa != 0) - f.emax);
    case ScaleRule::even: {
      const int carried = static_cast<int>((bits + (1u << (22 - f.mantissa_bits))) >> 23);
      return carried == 255 ? 255 : clamped(carried - f.emax);
    }
    case ScaleRule::rceil:
      break;
  }
  const float ratio = amax * (1.0f / f.max);
  int k = -127;
  while (k <= 127 && std::ldexp(1.0, k) < static_cast<double>(ratio)) ++k;
  return k + 127;  // 255: above 2^127
}

TEST(ScaleCode, FollowsTheDefinitionOverTheWholeRange) {
  std::mt19937 random(9);
  std::vector<std::uint32_t> all = {0, 1, 0x3FFFFF, 0x400000, 0x400001, 0x7FFFFF, 0x7F7FFFFF, 0x7F800000, 0x7FC00000};
  for (std::uint32_t exponent = 1; exponent < 255; ++exponent)
    for (const std::uint32_t mantissa : {0u, 1u, 0x400000u, 0x600000u, 0x600001u, 0x6FFFFFu, 0x700000u, 0x7FFFFFu})
      all.push_back(exponent << 23 | mantissa);
  for (int i = 0; i < 20000; ++i) all.push_back(static_cast<std::uint32_t>(random()) & 0x7FFFFFFF);
  for (const ElementFormat format : kEveryFormat)
    for (const ScaleRule rule : kEveryRule)
      for (const std::uint32_t bits : all) {
        const float amax = std::bit_cast<float>(bits);
        ASSERT_EQ(scale_code(rule, format, amax), code_by_definition(rule, traits(format), amax))
            << traits(format).name << ' ' << scale_rule_name(rule) << ' ' << amax;
      }
}

// RCEIL is the smallest power of two that brings amax to the maximum or below, up to rounding of the float32 product.
TEST(ScaleCode, RceilNeverClipsAndIsTight) {
  std::mt19937 random(5);
  for (const ElementFormat format : kEveryFormat) {
    for (int i = 0; i < 20000; ++i) {
      const float amax = std::bit_cast<float>(static_cast<std::uint32_t>(random() & 0x7FFFFFFF));
      if (!std::isfinite(amax) || amax < 0x1p-100f) continue;
      const int code = scale_code(ScaleRule::rceil, format, amax);
      EXPECT_LE(std::ldexp(static_cast<double>(amax), 127 - code), traits(format).max);
      EXPECT_GT(std::ldexp(static_cast<double>(amax), 128 - code), traits(format).max);
    }
  }
}

TEST(BlockQuantize, ABlockWorkedByHand) {
  // amax 7 with E2M1 (max 6): FLOOR 2^(2-2) = 1, 7 clips to 6; RCEIL 2, 7/2 = 3.5 is a tie between 3 and 4.
  const std::vector<float> x = {7.0f, -2.5f, 0.25f, 0.2f, -0.0f, 5.0f};
  std::vector<float> out(x.size());
  QuantSums sums;
  const Matrix<const float> in{x.data(), 1, x.size(), x.size()};
  quantize_operand({in, mx_format(ElementFormat::e2m1, ScaleRule::floor, 32), BlockAxis::row, {}, &sums},
                   {out.data(), in.rows, in.cols, x.size()});
  expect_same_bits(out, {6.0f, -2.0f, 0.0f, 0.0f, -0.0f, 4.0f}, "floor");
  EXPECT_EQ(sums.e8m0_blocks[127], 1u);
  EXPECT_EQ(sums.clipped, 1u);
  EXPECT_EQ(sums.clipped_blocks, 1u);
  EXPECT_EQ(sums.underflow, 2u);
  EXPECT_EQ(sums.nonzero, 5u);
  EXPECT_DOUBLE_EQ(sums.underflow_share(), 0.4);
  quantize_operand({in, mx_format(ElementFormat::e2m1, ScaleRule::rceil, 32), BlockAxis::row, {}},
                   {out.data(), in.rows, in.cols, x.size()});
  expect_same_bits(out, {8.0f, -2.0f, 0.0f, 0.0f, -0.0f, 4.0f}, "rceil");
}

TEST(BlockQuantize, MatchesTheDefinitionOnEveryShape) {
  for (const ElementFormat element : kEveryFormat)
    for (const ScaleRule rule : kEveryRule)
      for (const auto& [rows, cols] : std::vector<std::pair<std::size_t, std::size_t>>{
               {1, 32}, {3, 64}, {40, 96}, {70, 45}, {1, 1}, {5, 7}, {300, 33}, {16, 1056}})
        expect_definition(
            mx_format(element, rule, 32), normal_matrix(rows, cols),
            named(mx_format(element, rule, 32)) + " " + std::to_string(rows) + "x" + std::to_string(cols));
}

TEST(BlockQuantize, MatchesTheDefinitionForOtherBlockLengths) {
  for (const int block : {1, 8, 16, 24, 48, 128, 512})
    expect_definition(mx_format(ElementFormat::e4m3, ScaleRule::rceil, block), normal_matrix(37, 530),
                      "block " + std::to_string(block));
}

// Random bits: every exponent of float32, subnormals, zeros of both signs, scale codes 0 to 255.
TEST(BlockQuantize, MatchesTheDefinitionOnRandomBits) {
  std::mt19937 random(11);
  for (const ElementFormat element : kEveryFormat) {
    for (const ScaleRule rule : kEveryRule) {
      TestMatrix any(24, 256);
      for (float& v : any.v) v = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
      expect_definition(mx_format(element, rule, 32), any, named(mx_format(element, rule, 32)) + " any bits");
      TestMatrix m(64, 256);
      for (std::size_t i = 0; i < m.v.size(); ++i) {
        const std::uint32_t exponent = static_cast<std::uint32_t>(i / 32 % 255), low = random() & 0x807FFFFF;
        const std::uint32_t spread = std::min<std::uint32_t>(exponent, random() % 20);
        m.v[i] = std::bit_cast<float>(low | (exponent - spread) << 23);
        if (random() % 16 == 0) m.v[i] = random() % 2 ? 0.0f : -0.0f;
      }
      expect_definition(mx_format(element, rule, 32), m, named(mx_format(element, rule, 32)) + " all exponents");
    }
  }
}

// Sums in float32 would lose the whole error, that of vanishing values beside an exact one.
TEST(BlockQuantize, StatisticsHoldBeyondTheRangeOfFloatSquares) {
  TestMatrix m(32, 64, 1e-30f);
  for (std::size_t i = 0; i < m.v.size(); i += 32) m.v[i] = 256.0f;
  expect_definition(mx_format(ElementFormat::e4m3), m, "vanishing in the block");
  TestMatrix separate(32, 64);
  for (std::size_t i = 0; i < separate.v.size(); ++i) separate.v[i] = i / 32 % 2 ? 1.0f : 1.03e-25f;
  expect_definition(mx_format(ElementFormat::e4m3), separate, "vanishing beside a block");
  TestMatrix large = normal_matrix(32, 64, 1, 1e30f), small = normal_matrix(32, 64, 1, 1e-30f);
  expect_definition(mx_format(ElementFormat::e4m3), large, "large");
  expect_definition(mx_format(ElementFormat::e4m3), small, "small");
}

TEST(BlockQuantize, NanAndInfinitySpoilTheirBlockOnly) {
  for (const float bad : {kNan, kInf, -kInf}) {
    TestMatrix m = normal_matrix(8, 128);
    m.v[3 * 128 + 40] = bad;
    expect_definition(mx_format(ElementFormat::e4m3), m, "not finite");
    const QuantSums sums = sums_of(mx_format(ElementFormat::e4m3), m);
    EXPECT_EQ(sums.e8m0_blocks[255], 1u);
    EXPECT_TRUE(std::isfinite(sums.sqnr_db()));
  }
}

TEST(BlockQuantize, ATensorOfNanHasNoFiguresAndIsNotExact) {
  const std::vector<float> x(64, kNan), zeros(64, 0.0f);
  std::vector<float> q(64);
  QuantSums nan, zero;
  quantize_operand(
      {{x.data(), 2, 32, 32}, mx_format(ElementFormat::e4m3, ScaleRule::rceil, 32), BlockAxis::row, {}, &nan},
      {q.data(), 2, 32});
  EXPECT_TRUE(nan.all_nan());
  EXPECT_TRUE(std::isnan(nan.sqnr_db())) << nan.sqnr_db();
  EXPECT_TRUE(std::isnan(nan.relative_l2()));
  quantize_operand(
      {{zeros.data(), 2, 32, 32}, mx_format(ElementFormat::e4m3, ScaleRule::rceil, 32), BlockAxis::row, {}, &zero},
      {q.data(), 2, 32});
  EXPECT_FALSE(zero.all_nan());
  EXPECT_TRUE(std::isinf(zero.sqnr_db())) << "zeros are kept exactly";
}

TEST(BlockQuantize, EmptyMatrices) {
  QuantSums sums;
  const Matrix<float> empty(static_cast<float*>(nullptr), 0, 64);
  for (const BlockAxis axis : {BlockAxis::row, BlockAxis::column})
    quantize_operand({empty, mx_format(ElementFormat::e4m3), axis, {}, &sums}, empty);
  EXPECT_EQ(sums.elements, 0u);
  EXPECT_EQ(sums.blocks, 0u);
}

TEST(BlockQuantize, RowsOfAWiderMatrixLeaveTheRestAlone) {
  const TestMatrix m = normal_matrix(33, 100);
  TestMatrix out(33, 100, 5.0f);
  const Matrix<const float> inner{m.v.data() + 10, 33, 64, 100};
  for (const BlockAxis axis : {BlockAxis::row, BlockAxis::column}) {
    quantize_operand({inner, mx_format(ElementFormat::e4m3), axis, {}},
                     {out.v.data() + 10, inner.rows, inner.cols, 100});
    for (std::size_t r = 0; r < 33; ++r)
      for (std::size_t c = 0; c < 100; ++c) EXPECT_EQ(out.v[r * 100 + c] == 5.0f, c < 10 || c >= 74);
  }
}

TEST(BlockQuantize, StoredFormDecodesToTheSame) {
  for (const ElementFormat element : kEveryFormat) {
    const OperandFormat format = mx_format(element, ScaleRule::rceil, 32);
    TestMatrix m = normal_matrix(9, 75), out = m, stored = m;
    m.v[80] = kNan;
    std::vector<std::uint8_t> codes(9 * 75), scales(9 * 3);
    quantize_rows(format, m.view(), codes.data(), scales.data());
    dequantize_rows(format, codes.data(), scales.data(), stored.view());
    quantize_operand({m.view(), format, BlockAxis::row, {}}, {out.v.data(), m.rows, m.cols, 75});
    expect_same_bits(stored.v, out.v, named(format));
  }
}

TEST(BlockQuantize, SumsOfPartsAddUp) {
  const TestMatrix m = normal_matrix(64, 128);
  QuantSums whole = sums_of(mx_format(ElementFormat::e4m3), m), parts;
  for (std::size_t r = 0; r < 64; r += 16) {
    TestMatrix part(16, 128);
    std::copy_n(m.v.begin() + static_cast<std::ptrdiff_t>(r * 128), part.v.size(), part.v.begin());
    parts.add(sums_of(mx_format(ElementFormat::e4m3), part));
  }
  expect_same_sums(parts, whole, "parts");
}

// Distortion of Gaussian data in blocks of 32 under RCEIL.
TEST(BlockQuantize, GaussianReferenceLevels) {
  const TestMatrix m = normal_matrix(1024, 1024);
  const auto sqnr = [&](ElementFormat element, ScaleRule rule) {
    return sums_of(mx_format(element, rule, 32), m).sqnr_db();
  };
  EXPECT_NEAR(sqnr(ElementFormat::e4m3, ScaleRule::rceil), 31.5, 0.1);
  EXPECT_NEAR(sqnr(ElementFormat::e5m2, ScaleRule::rceil), 25.6, 0.1);
  EXPECT_NEAR(sqnr(ElementFormat::e2m3, ScaleRule::rceil), 31.0, 0.1);
  EXPECT_NEAR(sqnr(ElementFormat::e3m2, ScaleRule::rceil), 25.6, 0.1);
  EXPECT_NEAR(sqnr(ElementFormat::e2m1, ScaleRule::rceil), 18.8, 0.1);
  EXPECT_NEAR(sqnr(ElementFormat::e4m3, ScaleRule::floor), 30.7, 0.1);
  EXPECT_NEAR(sums_of(mx_format(ElementFormat::e2m1, ScaleRule::rceil, 32), m).underflow_share(), 0.107, 0.002);
  EXPECT_NEAR(sums_of(mx_format(ElementFormat::e4m3, ScaleRule::floor, 32), m).clipped_blocks_share(), 0.17, 0.01);
  EXPECT_EQ(sums_of(mx_format(ElementFormat::e4m3, ScaleRule::rceil, 32), m).clipped, 0u);
}

TEST(BlockQuantize, FiguresFollowFromTheSums) {
  QuantSums sums;
  sums.x2 = 100;
  sums.q2 = 81;
  sums.xq = 90;
  sums.err2 = 1;
  EXPECT_DOUBLE_EQ(sums.sqnr_db(), 20);
  EXPECT_DOUBLE_EQ(sums.relative_l2(), 0.1);
  EXPECT_DOUBLE_EQ(sums.cosine(), 1);
  const QuantSums exact = sums_of(mx_format(ElementFormat::e4m3), {1, 32, 2.0f});
  EXPECT_EQ(exact.sqnr_db(), kInf);
  EXPECT_DOUBLE_EQ(exact.mean_crest(), 1);
  EXPECT_EQ(sums_of(mx_format(ElementFormat::e4m3), {1, 32}).sqnr_db(),
            kInf);  // a tensor of zeros is exact too
}
