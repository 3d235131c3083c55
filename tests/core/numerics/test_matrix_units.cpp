// BF16 operands: the quantizer's numbers in BF16 equal those that it writes in FP32, or it reports that BF16 lacks
// them. Products of matrix units are as close to float64's as sums in FP32 are.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "core/numerics/gemm.h"
#include "core/numerics/matrix_units.h"
#include "core/numerics/scale_rules.h"
#include "tests/support/sample_matrices.h"

using namespace moescope;

namespace {

float widened(Bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

bool is_subnormal(float value) {
  return std::fpclassify(value) == FP_SUBNORMAL;
}

struct Quantized {
  bool fits = false;
  float scale = 0;
  std::vector<float> grid, scales;  // scales: one for each element
  std::vector<Bf16> bf16;
  std::vector<float> fp32;
  QuantSums bf16_sums, fp32_sums;
};

Quantized quantize_both(const OperandFormat& format, const TestMatrix& in, BlockAxis axis,
                        const RoundingKey& key = {}) {
  Quantized q;
  q.bf16.resize(in.v.size());
  q.fp32.resize(in.v.size());
  quantize_operand({in.view(), format, axis, key, &q.fp32_sums}, {q.fp32.data(), in.rows, in.cols});
  q.grid.resize(in.v.size());
  const bool along_columns = axis == BlockAxis::row;
  const Operand<float> operand{in.view(), format, axis, key, &q.bf16_sums};
  const ScaleGrid grid = operand.has_grid() ? operand.grid(q.grid.data()) : ScaleGrid{};
  const std::optional<float> scale = quantize_operand_bf16(operand, {q.bf16.data(), in.rows, in.cols}, grid);
  q.fits = scale.has_value();
  q.scale = scale.value_or(0);
  if (operand.has_grid()) {
    for (std::size_t r = 0; r < in.rows; ++r)
      for (std::size_t c = 0; c < in.cols; ++c) q.scales.push_back(along_columns ? grid.at(c, r) : grid.at(r, c));
  } else {
    q.scales.assign(in.v.size(), q.scale);
  }
  return q;
}

// Returns every code of the format, decoded under one scale; the largest number sets the scale.
TestMatrix every_code(ElementFormat element, int scale_code) {
  TestMatrix m(1, static_cast<std::size_t>(1 << traits(element).bits));
  for (std::size_t code = 0; code < m.cols; ++code) {
    const float value = decode(element, static_cast<std::uint8_t>(code));
    const float held = std::fabs(value) <= traits(element).max ? value : 0;  // 0 for NaN, too
    m.v[code] = static_cast<float>(std::ldexp(static_cast<double>(held), scale_code - 127));
  }
  return m;
}

}  // namespace

TEST(Bf16Operands, EveryCodeOfEveryFormatUnderEveryScaleIsKeptOrRefused) {
  for (const FormatTraits& format : kElementFormats) {
    const auto element = *element_named(format.name);
    const OperandFormat whole_row = mx_format(element, ScaleRule::rceil, 1 << format.bits);
    for (int scale = 0; scale <= 254; ++scale) {
      const TestMatrix in = every_code(element, scale);
      const Quantized q = quantize_both(whole_row, in, BlockAxis::row);
      bool subnormal = false, finite = true;
      for (std::size_t i = 0; i < in.v.size(); ++i) {
        finite &= std::isfinite(in.v[i]);
        subnormal |= is_subnormal(q.fp32[i]);
        if (q.fits) {
          EXPECT_TRUE(same_bits(widened(q.bf16[i]), q.fp32[i])) << format.name << ' ' << scale << ' ' << i;
        }
      }
      if (finite && scale > 0) {
        EXPECT_EQ(q.fits, !subnormal) << format.name << " under 2^" << scale - 127;
      }
    }
  }
}

TEST(Bf16Operands, AreWhatTheQuantizerDecodes) {
  int compared = 0;
  for (const NamedFormat& named : named_formats()) {
    if (!fits_bf16(named.format)) continue;
    for (const auto& [rows, cols] : {std::pair<std::size_t, std::size_t>{64, 96}, {33, 47}, {1, 5}, {300, 129}})
      for (const BlockAxis axis : {BlockAxis::row, BlockAxis::column})
        for (const int hadamard : {0, 32})
          for (const Rounding rounding : {Rounding::nearest, Rounding::stochastic}) {
            OperandFormat format = named.format;
            format.hadamard = hadamard;
            format.rounding = rounding;
            const Quantized q = quantize_both(format, normal_matrix(rows, cols), axis, {.seed = 5, .rotation_seed = 7});
            ASSERT_TRUE(q.fits);
            for (std::size_t i = 0; i < q.fp32.size(); ++i) {
              // t * s is rounded before or after it is multiplied by the element.
              const float value = widened(q.bf16[i]) * q.scales[i];
              if (format.scheme == QuantScheme::bf16 || format.scheme == QuantScheme::mx)
                ASSERT_TRUE(same_bits(value, q.fp32[i])) << named.name << ' ' << i;
              else
                ASSERT_NEAR(value, q.fp32[i], std::fabs(q.fp32[i]) * 0x1p-22f) << named.name << ' ' << i;
            }
            EXPECT_EQ(q.bf16_sums.err2, q.fp32_sums.err2) << named.name;
            EXPECT_EQ(q.bf16_sums.underflow, q.fp32_sums.underflow) << named.name;
            EXPECT_EQ(q.bf16_sums.clipped, q.fp32_sums.clipped) << named.name;
            EXPECT_EQ(q.bf16_sums.e8m0_blocks, q.fp32_sums.e8m0_blocks) << named.name;
            ++compared;
          }
  }
  EXPECT_GE(compared, 12 * 32);
}

// Squares beyond the range of float32 are added in double, from the values decoded once more.
TEST(Bf16Operands, CountHugeValuesAsTheQuantizerDoes) {
  TestMatrix in = normal_matrix(64, 64);
  for (float& x : in.v) x *= 0x1p100f;
  in.v[5] = std::numeric_limits<float>::infinity();
  in.v[900] = 0x1.8p127f;
  for (const OperandFormat& format : {mx_format(ElementFormat::e4m3), kNvfp4Format, kBf16Format})
    for (const BlockAxis axis : {BlockAxis::row, BlockAxis::column}) {
      const Quantized q = quantize_both(format, in, axis);
      EXPECT_EQ(q.bf16_sums.err2, q.fp32_sums.err2);
      EXPECT_EQ(q.bf16_sums.x2, q.fp32_sums.x2);
      EXPECT_EQ(q.bf16_sums.elements, q.fp32_sums.elements);
    }
}

TEST(Bf16Operands, RefuseNumbersThatUnitsWouldTakeForZero) {
  TestMatrix in = normal_matrix(8, 64);
  in.v[70] = 0x1.8p-127f;
  EXPECT_FALSE(quantize_both(kBf16Format, in, BlockAxis::row).fits);
  in.v[70] = 0;
  EXPECT_TRUE(quantize_both(kBf16Format, in, BlockAxis::row).fits);
  for (std::size_t i = 0; i < 32; ++i) in.v[i] = 0x1p-120f;
  EXPECT_FALSE(quantize_both(mx_format(ElementFormat::e4m3), in, BlockAxis::row).fits);
  EXPECT_TRUE(quantize_both(kNvfp4Format, in, BlockAxis::row).fits);  // its scales have a floor
}

// Products ----------------------------------------------------------------------------------------------------------

class MatrixUnits : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_matrix_unit()) GTEST_SKIP() << matrix_unit_text();
  }
};

namespace {

std::vector<Bf16> halves(const TestMatrix& m) {
  std::vector<Bf16> out(m.v.size());
  quantize_operand_bf16({m.view(), kBf16Format}, {out.data(), m.rows, m.cols});
  return out;
}

struct Case {
  int m, n, k;
  Trans ta, tb;
};

// Compares |c - exact| with the bound of k products added in FP32 in any order, nearly k 2^-24 sum |a b|.
void expect_within_bound(const Case& s, float alpha, bool adds) {
  const bool turned_a = s.ta == Trans::yes, turned_b = s.tb == Trans::yes;
  const auto extent = [](int rows, int cols, bool turned) {
    return std::pair(static_cast<std::size_t>(turned ? cols : rows), static_cast<std::size_t>(turned ? rows : cols));
  };
  const auto [ar, ac] = extent(s.m, s.k, turned_a);
  const auto [br, bc] = extent(s.k, s.n, turned_b);
  const auto a = halves(normal_matrix(ar, ac, 1)), b = halves(normal_matrix(br, bc, 2));
  const TestMatrix before = normal_matrix(static_cast<std::size_t>(s.m), static_cast<std::size_t>(s.n), 3);
  TestMatrix c = before;
  gemm(s.ta, s.tb, alpha, {a.data(), ar, ac}, {b.data(), br, bc}, adds ? 1.0f : 0.0f, c.view());
  // All elements of small products, some of large ones.
  const int stride = std::max(1, static_cast<int>(static_cast<double>(s.m) * s.n * s.k / 3e7));
  for (int i = 0; i < s.m * s.n; i += stride) {
    const auto r = static_cast<std::size_t>(i / s.n), col = static_cast<std::size_t>(i % s.n);
    double sum = 0, magnitudes = 0;
    for (std::size_t x = 0; x < static_cast<std::size_t>(s.k); ++x) {
      const double product = static_cast<double>(widened(a[turned_a ? x * ac + r : r * ac + x])) *
                             static_cast<double>(widened(b[turned_b ? col * bc + x : x * bc + col]));
      sum += product;
      magnitudes += std::fabs(product);
    }
    const double old_value = adds ? static_cast<double>(before.at(r, col)) : 0;
    const double exact = old_value + static_cast<double>(alpha) * sum;
    const double bound =
        (s.k + 4) * 0x1p-24 * (std::fabs(old_value) + static_cast<double>(alpha) * magnitudes) + 0x1p-120;
    ASSERT_LE(std::fabs(static_cast<double>(c.at(r, col)) - exact), bound)
        << s.m << " x " << s.n << " x " << s.k << " at " << r << ", " << col;
  }
}

}  // namespace

TEST_F(MatrixUnits, ErrorsAreWithinTheBoundOfAnFp32Sum) {
  using enum Trans;
  const int extents[] = {1, 2, 31, 32, 33, 64, 100, 257};
  for (const auto& [ta, tb] : {std::pair{no, yes}, {no, no}, {yes, no}})
    for (const int m : extents)
      for (const int n : extents)
        for (const int k : extents) ASSERT_NO_FATAL_FAILURE(expect_within_bound({m, n, k, ta, tb}, 1, m % 2 == 0));
  for (const Case& large :
       {Case{2048, 64, 512, no, yes}, {512, 2048, 129, no, no}, {130, 96, 2048, yes, no}, {1000, 70, 2047, no, yes}})
    for (const float alpha : {1.0f, 0.3f}) ASSERT_NO_FATAL_FAILURE(expect_within_bound(large, alpha, true));
}

TEST_F(MatrixUnits, AnExpertWithoutRowsChangesNothingOrGivesZeros) {
  const std::vector<Bf16> none(64, 0x3F80);
  std::vector<float> c(64, 3);
  const Matrix<const Bf16> no_rows(none.data(), 0, 8), weights(none.data(), 8, 8);
  const Matrix<float> whole(c.data(), 8, 8);
  gemm(Trans::yes, Trans::no, 1, no_rows, no_rows, 1, whole);
  EXPECT_EQ(c, std::vector<float>(64, 3));
  gemm(Trans::no, Trans::yes, 1, no_rows, weights, 0, whole.row_block(0, 0));
  EXPECT_EQ(c, std::vector<float>(64, 3));
  gemm(Trans::yes, Trans::no, 1, no_rows, no_rows, 0, whole);
  EXPECT_EQ(c, std::vector<float>(64, 0));
}

TEST_F(MatrixUnits, StridesAreKept) {
  const TestMatrix a = normal_matrix(40, 96, 1), b = normal_matrix(50, 96, 2);
  const auto ah = halves(a), bh = halves(b);
  std::vector<float> wide(40 * 80, 7);
  gemm(Trans::no, Trans::yes, 1, {ah.data() + 32, 40, 64, 96}, {bh.data() + 32, 50, 64, 96}, 0,
       {wide.data(), 40, 50, 80});
  for (std::size_t r = 0; r < 40; ++r)
    for (std::size_t i = 50; i < 80; ++i) ASSERT_EQ(wide[r * 80 + i], 7);
  double exact = 0;
  for (std::size_t x = 32; x < 96; ++x)
    exact += static_cast<double>(widened(ah[39 * 96 + x])) * static_cast<double>(widened(bh[49 * 96 + x]));
  EXPECT_NEAR(wide[39 * 80 + 49], exact, 1e-4);
}
