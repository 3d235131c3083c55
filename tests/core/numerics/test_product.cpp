// Products of quantized operands, on matrix units if this processor has them, otherwise by sgemm: the sum of their
// decoded values in float64, up to the error of a sum in FP32. Every pair of formats is tested, with and without
// halves.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "core/numerics/matrix_units.h"
#include "core/numerics/number_format.h"
#include "core/numerics/product.h"
#include "core/numerics/quantize.h"
#include "tests/support/sample_matrices.h"

using namespace moescope;

namespace {

// One operand: its values in memory, and decoded.
struct TestOperand {
  TestMatrix values, decoded;
  Operand<float> operand;

  TestOperand(const OperandFormat& format, std::size_t rows, std::size_t cols, BlockAxis axis, Halves halves, int seed)
      : values(normal_matrix(rows, cols, seed)), decoded(rows, cols) {
    operand = {values.view(), format, axis};
    operand.halves = halves;
    for (std::size_t r = 0; r < rows; ++r)  // the second half has other scales
      for (std::size_t c = 0; c < cols; ++c)
        if ((halves == Halves::stacked && r >= rows / 2) || (halves == Halves::side_by_side && c >= cols / 2))
          values.at(r, c) *= 40;
    for (int i = 0; i < operand.parts(); ++i) {
      const Matrix<float> out = decoded.view();
      const Index half_begin = operand.half_size() * i;
      const Operand<float> part = operand.part(i);
      quantize_operand(
          part, out.block(halves == Halves::stacked ? half_begin : 0, halves == Halves::side_by_side ? half_begin : 0,
                          part.matrix.rows, part.matrix.cols));
    }
  }
};

struct Shape {
  int m, n, k;
  Trans ta, tb;
  Halves a, b;
};

void expect_sum_of_decoded(const OperandFormat& format_a, const OperandFormat& format_b, const Shape& s,
                           Index task_rows, bool adds) {
  const auto size = [](int n) { return static_cast<std::size_t>(n); };
  const bool turned_a = s.ta == Trans::yes, turned_b = s.tb == Trans::yes;
  const TestOperand a(format_a, size(turned_a ? s.k : s.m), size(turned_a ? s.m : s.k),
                      turned_a ? BlockAxis::column : BlockAxis::row, s.a, 1);
  const TestOperand b(format_b, size(turned_b ? s.n : s.k), size(turned_b ? s.k : s.n),
                      turned_b ? BlockAxis::row : BlockAxis::column, s.b, 2);
  const TestMatrix before = normal_matrix(size(s.m), size(s.n), 3);
  TestMatrix c = before;
  multiply(s.ta, s.tb, a.operand, b.operand, adds, c.view(), task_rows);
  for (std::size_t i = 0; i < size(s.m); ++i)
    for (std::size_t j = 0; j < size(s.n); j += 3) {
      double sum = adds ? static_cast<double>(before.at(i, j)) : 0, magnitudes = std::fabs(sum);
      for (std::size_t x = 0; x < size(s.k); ++x) {
        const double product = static_cast<double>(turned_a ? a.decoded.at(x, i) : a.decoded.at(i, x)) *
                               static_cast<double>(turned_b ? b.decoded.at(j, x) : b.decoded.at(x, j));
        sum += product;
        magnitudes += std::fabs(product);
      }
      ASSERT_NEAR(static_cast<double>(c.at(i, j)), sum, (s.k + 8) * 0x1p-24 * magnitudes + 1e-30)
          << i << ", " << j << " of " << s.m << " x " << s.n << " x " << s.k;
    }
}

std::vector<OperandFormat> formats() {
  std::vector<OperandFormat> all{kBf16Format, mx_format(ElementFormat::e4m3), kNvfp4Format};
  for (const ScaleGranularity g : {ScaleGranularity::tensor, ScaleGranularity::row, ScaleGranularity::block_1x128,
                                   ScaleGranularity::block_128x128})
    all.push_back(fp8_format(g));
  return all;
}

// Both products of a gradient ----------------------------------------------------------------------------------------

constexpr int kTokens = 150, kOutputs = 64, kInputs = 96;  // kOutputs: both halves of dy

struct BothProducts {
  TestMatrix dw{kOutputs, kInputs}, dx{kTokens, kInputs};
  std::array<QuantSums, 6> sums{};  // dy for wgrad, dy for dgrad, two each; x; w
};

Operand<float> gradient_operand(const OperandFormat& format, const TestMatrix& m, BlockAxis axis, Halves halves,
                                QuantSums* sums) {
  Operand<float> operand{m.view(), format, axis, {3, 4, 0, 0, 5}, sums};
  operand.halves = halves;
  operand.second_key = {3, 6, 0, 0, 5};
  if (halves != Halves::none) operand.second_sums = sums + 1;
  return operand;
}

struct GradientCase {
  OperandFormat dy_format, x_format, w_format;
  TestMatrix x, w;
  std::string what;
};

BothProducts both_products(const GradientCase& c, bool together, bool counted) {
  BothProducts r;
  const TestMatrix dy = normal_matrix(kTokens, kOutputs, 1);
  const GradientProducts<float> products{
      .wgrad_dy = gradient_operand(c.dy_format, dy, BlockAxis::column, Halves::side_by_side, r.sums.data()),
      .x = gradient_operand(c.x_format, c.x, BlockAxis::column, Halves::none, counted ? &r.sums[4] : nullptr),
      .dgrad_dy = gradient_operand(c.dy_format, dy, BlockAxis::row, Halves::side_by_side, r.sums.data() + 2),
      .w = gradient_operand(c.w_format, c.w, BlockAxis::column, Halves::none, counted ? &r.sums[5] : nullptr),
      .dw = r.dw.view(),
      .dx = r.dx.view()};
  if (together) {
    multiply(products);
  } else {
    multiply(Trans::yes, Trans::no, products.wgrad_dy, products.x, false, products.dw);
    multiply(Trans::no, Trans::no, products.dgrad_dy, products.w, false, products.dx);
  }
  return r;
}

void expect_same_products(const GradientCase& c) {
  const BothProducts single = both_products(c, false, true), together = both_products(c, true, true),
                     uncounted = both_products(c, true, false);
  EXPECT_EQ(together.dw.v, single.dw.v) << c.what;
  EXPECT_EQ(together.dx.v, single.dx.v) << c.what;
  EXPECT_EQ(uncounted.dw.v, single.dw.v) << c.what << ", x and w uncounted";
  EXPECT_EQ(uncounted.dx.v, single.dx.v) << c.what << ", x and w uncounted";
  for (std::size_t i = 0; i < single.sums.size(); ++i) {
    EXPECT_EQ(together.sums[i].elements, single.sums[i].elements) << c.what << " operand " << i;
    EXPECT_EQ(together.sums[i].x2, single.sums[i].x2) << c.what << " operand " << i;
    EXPECT_EQ(together.sums[i].err2, single.sums[i].err2) << c.what << " operand " << i;
    EXPECT_EQ(together.sums[i].e8m0_blocks, single.sums[i].e8m0_blocks) << c.what << " operand " << i;
  }
}

}  // namespace

TEST(Product, IsTheSumOfDecodedValues) {
  using enum Trans;
  using enum Halves;
  const Shape shapes[] = {
      {70, 33, 300, no, yes, none, none},            // forward
      {130, 96, 260, no, yes, none, stacked},        // of w1 above w3
      {64, 70, 400, no, no, side_by_side, stacked},  // dgrad of both, cut within a block of 128
      {270, 40, 150, yes, no, side_by_side, none},   // wgrad of both
      {1, 1, 1, no, no, none, none},
  };
  for (const OperandFormat& format_a : formats())
    for (const OperandFormat& format_b : formats())
      for (const Shape& shape : shapes) {
        const Index task_rows = shape.m > 100 ? 100 : 0;
        ASSERT_NO_FATAL_FAILURE(expect_sum_of_decoded(format_a, format_b, shape, task_rows, shape.n > 50))
            << format_name(format_a) << " by " << format_name(format_b) << ", " << matrix_unit_text();
      }
}

// Operands that are quantized once, where BF16 allows it, give the same bits and the same figures as operands that each
// product quantizes for itself.
TEST(GradientProducts, AreThoseOfEachProductAlone) {
  const TestMatrix x = normal_matrix(kTokens, kInputs, 2), w = normal_matrix(kOutputs, kInputs, 3);
  const OperandFormat fp32, mx = mx_format(ElementFormat::e4m3), fp8 = fp8_format(ScaleGranularity::tensor);
  OperandFormat drawn = kBf16Format, rotated = kBf16Format;
  drawn.rounding = Rounding::stochastic;
  rotated.hadamard = 32;
  for (const OperandFormat& dy_format : {kBf16Format, fp32, mx, fp8, kNvfp4Format, drawn})
    for (const OperandFormat& w_format : {kBf16Format, fp32, mx})
      expect_same_products({dy_format, kBf16Format, w_format, x, w,
                            format_name(dy_format) + " by " + format_name(w_format) + ", " + matrix_unit_text()});
  expect_same_products({rotated, rotated, rotated, x, w, "rotated"});
}

// Numbers below 2^-126 in x, in w or in both, which matrix units take for zeros, make sgemm compute a product.
TEST(GradientProducts, OfNumbersThatUnitsLackToo) {
  const TestMatrix x = normal_matrix(kTokens, kInputs, 2), w = normal_matrix(kOutputs, kInputs, 3);
  TestMatrix small_x = x, small_w = w;
  small_x.at(70, 5) = 1e-39f;
  small_w.at(9, 9) = 1e-39f;
  expect_same_products({kBf16Format, kBf16Format, kBf16Format, small_x, w, "x"});
  expect_same_products({kBf16Format, kBf16Format, kBf16Format, x, small_w, "w"});
  expect_same_products({kBf16Format, kBf16Format, kBf16Format, small_x, small_w, "both"});
}
