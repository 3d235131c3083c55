// NVFP4 with its other arithmetics. golden_nvfp4 compares their codes and scales with those of other implementations.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "core/numerics/bf16_rounding.h"
#include "core/numerics/quantize.h"
#include "tests/support/sample_matrices.h"
#include "tests/support/stored_nvfp4.h"

namespace moescope {
namespace {

OperandFormat nvfp4_of(Nvfp4Rule rule, bool square = false, FourOverSix choice = FourOverSix::off, int bound = 448) {
  OperandFormat format = kNvfp4Format;
  format.nvfp4 = {rule, square, choice, bound};
  return format;
}

std::vector<OperandFormat> all_scalings() {
  std::vector<OperandFormat> all;
  for (const bool square : {false, true}) {
    for (int rule = 0; rule < 4; ++rule) all.push_back(nvfp4_of(static_cast<Nvfp4Rule>(rule), square));
    for (const int bound : {256, 448})
      for (const FourOverSix choice : {FourOverSix::mae, FourOverSix::mse})
        all.push_back(nvfp4_of(Nvfp4Rule::transformer_engine, square, choice, bound));
  }
  return all;
}

// Neither rows nor columns are whole blocks. One block is far smaller than the others, so that its scale may become 0.
TestMatrix uneven() {
  TestMatrix m = normal_matrix(150, 200, 3);
  for (std::size_t c = 0; c < 200; c += 7) m.at(40, c) *= 300;
  for (std::size_t r = 16; r < 32; ++r)
    for (std::size_t c = 32; c < 48; ++c) m.at(r, c) *= 1e-7f;
  for (std::size_t c = 64; c < 80; ++c) m.at(3, c) = 0;
  return m;
}

TEST(Nvfp4Arithmetics, TrainWithWhatIsStored) {
  const TestMatrix m = uneven();
  const float amax = operand_amax({m.view(), kNvfp4Format, BlockAxis::row});
  for (const OperandFormat& format : all_scalings()) {
    std::vector<std::uint8_t> codes(m.v.size()), scales(150 * 13);
    TestMatrix stored(m.rows, m.cols);
    store_nvfp4(format, m.view(), amax, codes.data(), scales.data());
    decode_stored_nvfp4(format, codes.data(), scales.data(), amax, stored.view());
    expect_same_values(quantized(format, m, BlockAxis::row), stored, format_name(format));
    expect_same_values(transposed(quantized(format, transposed(m), BlockAxis::column)), stored,
                       format_name(format) + " down columns");
  }
}

TEST(Nvfp4Arithmetics, FiguresAreThoseOfTheDecodedValues) {
  const TestMatrix m = uneven();
  for (const OperandFormat& format : all_scalings())
    for (const BlockAxis axis : {BlockAxis::row, BlockAxis::column}) {
      SCOPED_TRACE(describe(format, axis) + ' ' + format_name(format));
      QuantSums sums, want;
      const TestMatrix q = quantized(format, m, axis, {}, &sums);
      for (std::size_t i = 0; i < m.v.size(); ++i) {
        const double x = m.v[i], y = q.v[i];
        want.x2 += x * x;
        want.q2 += y * y;
        want.err2 += (x - y) * (x - y);
        want.nonzero += x != 0;
        want.underflow += x != 0 && y == 0;
      }
      expect_near_relative(sums.x2, want.x2, "x2");
      expect_near_relative(sums.q2, want.q2, "q2");
      expect_near_relative(sums.err2, want.err2, "err2");
      EXPECT_EQ(sums.nonzero, want.nonzero);
      EXPECT_EQ(sums.underflow, want.underflow);
      EXPECT_EQ(sums.elements, m.v.size());
      const unsigned blocks_of_vectors = axis == BlockAxis::row ? 150u * 13 : 10u * 200;
      EXPECT_EQ(sums.blocks, format.nvfp4.square ? 10u * 13 : blocks_of_vectors);
      EXPECT_LE(sums.clipped_blocks, sums.blocks);
      EXPECT_GE(sums.mean_crest(), 1);
    }
}

TEST(Nvfp4Arithmetics, TilesChangeNothing) {
  const TestMatrix m = normal_matrix(256, 384, 4);
  for (OperandFormat format : all_scalings())
    for (const Rounding rounding : {Rounding::nearest, Rounding::stochastic})
      for (const BlockAxis axis : {BlockAxis::row, BlockAxis::column}) {
        format.rounding = rounding;
        TestMatrix out(m.rows, m.cols);
        for (std::uint32_t r = 0; r < m.rows; r += 128)
          for (std::uint32_t c = 0; c < m.cols; c += 128)
            quantize_operand({{&m.v[r * m.cols + c], 128, 128, m.cols},
                              format,
                              axis,
                              {3, 4, r, c},
                              nullptr,
                              operand_amax({m.view(), format, axis})},
                             {&out.at(r, c), 128, 128, out.cols});
        expect_same_values(out, quantized(format, m, axis, {3, 4}), format_name(format));
      }
}

TEST(Nvfp4Arithmetics, ProductsInBf16HaveTheSameOperands) {
  const TestMatrix m = uneven();
  for (const OperandFormat& format : all_scalings()) {
    const TestMatrix q = quantized(format, m, BlockAxis::row);
    std::vector<Bf16> numbers(m.v.size());
    const std::optional<float> scale = quantize_operand_bf16({m.view(), format}, {numbers.data(), m.rows, m.cols});
    ASSERT_TRUE(scale);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const float value = std::bit_cast<float>(static_cast<std::uint32_t>(numbers[i]) << 16) * *scale;
      ASSERT_NEAR(value, q.v[i], std::fabs(q.v[i]) * 0x1p-22f) << format_name(format) << " at " << i;
    }
  }
  // A scale for which float32 has few bits cannot be a factor of a product.
  const TestMatrix tiny = normal_matrix(16, 16, 5, 1e-37f);
  std::vector<Bf16> numbers(tiny.v.size());
  EXPECT_FALSE(quantize_operand_bf16({tiny.view(), nvfp4_of(Nvfp4Rule::transformer_engine)}, {numbers.data(), 16, 16}));
}

// A weight is the same in both of the products that contract its two dimensions.
TEST(Nvfp4Arithmetics, SquaresAreTheSameAlongBothAxes) {
  const TestMatrix m = uneven();
  for (const OperandFormat& format : all_scalings()) {
    const TestMatrix rows = quantized(format, m, BlockAxis::row), columns = quantized(format, m, BlockAxis::column);
    EXPECT_EQ(rows.v == columns.v, format.nvfp4.square) << format_name(format);
  }
}

// The largest value is 1. With the scale of 6, 3/4 is between 4/6 and 6/6, and 2/3 is exactly 4/6. With the scale of 4,
// 3/4 is exact, and 2/3 is between 2/4 and 3/4.
TEST(Nvfp4Arithmetics, FourOverSixTakesTheScaleThatFitsTheOthers) {
  const OperandFormat six = nvfp4_of(Nvfp4Rule::transformer_engine);
  for (const FourOverSix choice : {FourOverSix::mae, FourOverSix::mse})
    for (const auto& [other, gains] : {std::pair(0.75f, true), std::pair(2.0f / 3, false)}) {
      TestMatrix m(1, 16, other);
      m.at(0, 5) = 1;
      QuantSums plain, chosen;
      quantized(six, m, BlockAxis::row, {}, &plain);
      quantized(nvfp4_of(Nvfp4Rule::transformer_engine, false, choice, 256), m, BlockAxis::row, {}, &chosen);
      EXPECT_GT(chosen.sqnr_db(), 100);
      EXPECT_EQ(chosen.sqnr_db() > plain.sqnr_db() + 20, gains) << other;
    }
}

TEST(Nvfp4Arithmetics, NanAndInfinitySpoilWhatSharesTheirScale) {
  for (const OperandFormat& format : all_scalings())
    for (const float bad : {NAN, INFINITY}) {
      TestMatrix m = normal_matrix(32, 32, 6);
      m.at(17, 3) = bad;
      const TestMatrix q = quantized(format, m, BlockAxis::row);
      for (std::size_t r = 0; r < 32; ++r)
        for (std::size_t c = 0; c < 32; ++c) {
          const bool shares = has_tensor_scale(format) || (c < 16 && (format.nvfp4.square ? r >= 16 : r == 17));
          ASSERT_EQ(std::isnan(q.at(r, c)), shares) << format_name(format) << ' ' << r << ' ' << c;
        }
    }
}

TEST(FixedRotation, RepeatsItsSignsAndKeepsProducts) {
  const TestMatrix a = normal_matrix(8, 64, 7), b = normal_matrix(8, 64, 8);
  const auto turned = [](const TestMatrix& m, RotationForm form) {
    TestMatrix out(m.rows, m.cols);
    hadamard_rotate(m.view(), BlockAxis::row, {16, form, 5}, 0, out.view());
    return out;
  };
  const TestMatrix ra = turned(a, RotationForm::fixed), rb = turned(b, RotationForm::fixed);
  double before = 0, after = 0;
  for (std::size_t i = 0; i < a.v.size(); ++i) {
    before += static_cast<double>(a.v[i]) * b.v[i];
    after += static_cast<double>(ra.v[i]) * rb.v[i];
  }
  EXPECT_NEAR(before, after, 1e-4);
  TestMatrix periodic(1, 64);
  for (std::size_t i = 0; i < 64; ++i) periodic.v[i] = a.v[i % 16];
  const TestMatrix r = turned(periodic, RotationForm::fixed);
  for (std::size_t i = 16; i < 64; ++i) EXPECT_EQ(r.v[i], r.v[i - 16]);
  TestMatrix rounded = ra;
  round_to_bf16(std::span(rounded.v));
  EXPECT_EQ(turned(a, RotationForm::fixed_bf16).v, rounded.v);
}

}  // namespace
}  // namespace moescope
