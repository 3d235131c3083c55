// Both products of a gradient, from operands that are quantized once where BF16 allows it: the same bits and the same
// figures as from operands that each product quantizes for itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "core/model/layers/gradient_inputs.h"
#include "core/model/layers/linear.h"
#include "core/numerics/matrix_units.h"
#include "core/numerics/number_format.h"
#include "core/numerics/size.h"
#include "tests/support/sample_matrices.h"

using namespace moescope;

namespace {

constexpr int kTokens = 150, kOutputs = 64, kInputs = 96;  // kOutputs: of both parts of dy

struct BothProducts {
  std::vector<float> dw = std::vector<float>(size(kOutputs) * size(kInputs)),
                     dx = std::vector<float>(size(kTokens) * size(kInputs));
  std::array<QuantSums, 6> sums{};  // of dy for wgrad, dy for dgrad, two each; x; w
};

OperandSource<float> gradient_source(const OperandFormat& format, const TestMatrix& m, BlockAxis axis,
                                     bool parts_beside, QuantSums* sums) {
  OperandSource<float> s;
  s.format = &format, s.axis = axis;
  s.rows = static_cast<int>(m.rows), s.cols = s.stride = static_cast<int>(m.cols);
  s.part[0] = {m.v.data(), {3, 4, 0, 0, 5}, sums};
  if (!parts_beside) return s;
  s.parts = 2, s.cols /= 2;
  s.part[1] = {m.v.data() + s.cols, {3, 6, 0, 0, 5}, sums + 1};
  return s;
}

BothProducts both_products(const OperandFormat& of_dy, const OperandFormat& of_x, const OperandFormat& of_w,
                           const TestMatrix& dy, const TestMatrix& x, const TestMatrix& w, bool together,
                           bool counted) {
  BothProducts r;
  const auto wgrad_dy = gradient_source(of_dy, dy, BlockAxis::column, true, r.sums.data());
  const auto dgrad_dy = gradient_source(of_dy, dy, BlockAxis::row, true, r.sums.data() + 2);
  const auto x_source = gradient_source(of_x, x, BlockAxis::column, false, counted ? &r.sums[4] : nullptr);
  const auto w_source = gradient_source(of_w, w, BlockAxis::column, false, counted ? &r.sums[5] : nullptr);
  std::vector<float> scratch(std::max(scratch_for(wgrad_dy, x_source), scratch_for(dgrad_dy, w_source)) + 16);
  GradientInputs<float> gradient(wgrad_dy, x_source, dgrad_dy, w_source, true);
  const auto for_dw = together ? gradient.wgrad() : quantized(wgrad_dy, x_source, true, scratch.data());
  multiply(Trans::yes, Trans::no, kOutputs, kInputs, kTokens, for_dw.a, for_dw.b, false, r.dw.data(), kInputs);
  const auto for_dx = together ? gradient.dgrad() : quantized(dgrad_dy, w_source, true, scratch.data());
  multiply(Trans::no, Trans::no, kTokens, kInputs, kOutputs, for_dx.a, for_dx.b, false, r.dx.data(), kInputs);
  return r;
}

void expect_same_products(const OperandFormat& of_dy, const OperandFormat& of_x, const OperandFormat& of_w,
                          const TestMatrix& x, const TestMatrix& w, const std::string& what) {
  const TestMatrix dy = normal_matrix(kTokens, kOutputs, 1);
  const BothProducts alone = both_products(of_dy, of_x, of_w, dy, x, w, false, true);
  const BothProducts together = both_products(of_dy, of_x, of_w, dy, x, w, true, true);
  const BothProducts uncounted = both_products(of_dy, of_x, of_w, dy, x, w, true, false);
  EXPECT_EQ(together.dw, alone.dw) << what;
  EXPECT_EQ(together.dx, alone.dx) << what;
  EXPECT_EQ(uncounted.dw, alone.dw) << what << ", x and w uncounted";
  EXPECT_EQ(uncounted.dx, alone.dx) << what << ", x and w uncounted";
  for (std::size_t i = 0; i < alone.sums.size(); ++i) {
    EXPECT_EQ(together.sums[i].elements, alone.sums[i].elements) << what << " operand " << i;
    EXPECT_EQ(together.sums[i].x2, alone.sums[i].x2) << what << " operand " << i;
    EXPECT_EQ(together.sums[i].err2, alone.sums[i].err2) << what << " operand " << i;
    EXPECT_EQ(together.sums[i].e8m0_blocks, alone.sums[i].e8m0_blocks) << what << " operand " << i;
  }
}

}  // namespace

TEST(GradientInputs, AreThoseOfEachProductAlone) {
  const TestMatrix x = normal_matrix(kTokens, kInputs, 2), w = normal_matrix(kOutputs, kInputs, 3);
  const OperandFormat fp32, mx = mx_format(ElementFormat::e4m3), fp8 = fp8_format(ScaleGranularity::tensor);
  OperandFormat drawn = kBf16Format, rotated = kBf16Format;
  drawn.rounding = Rounding::stochastic;
  rotated.hadamard = 32;
  for (const OperandFormat& of_dy : {kBf16Format, fp32, mx, fp8, kNvfp4Format, drawn})
    for (const OperandFormat& of_w : {kBf16Format, fp32, mx})
      expect_same_products(of_dy, kBf16Format, of_w, x, w,
                           format_name(of_dy) + " by " + format_name(of_w) + ", " + matrix_unit_text());
  expect_same_products(rotated, rotated, rotated, x, w, "rotated");
}

// Numbers below 2^-126, which matrix units take for zeros, put a product on sgemm: of x, of w, of both.
TEST(GradientInputs, OfNumbersThatUnitsLackToo) {
  const TestMatrix x = normal_matrix(kTokens, kInputs, 2), w = normal_matrix(kOutputs, kInputs, 3);
  TestMatrix small_x = x, small_w = w;
  small_x.at(70, 5) = 1e-39f, small_w.at(9, 9) = 1e-39f;
  expect_same_products(kBf16Format, kBf16Format, kBf16Format, small_x, w, "x");
  expect_same_products(kBf16Format, kBf16Format, kBf16Format, x, small_w, "w");
  expect_same_products(kBf16Format, kBf16Format, kBf16Format, small_x, small_w, "both");
}

// In BF16 wgrad's x is forward's, so it has its figures; in another format it has its own.
TEST(LinearBackward, CountsWhatTheForwardPassDidNot) {
  const TestMatrix x = normal_matrix(kTokens, kInputs, 2), w = normal_matrix(kOutputs, kInputs, 3);
  const TestMatrix dy = normal_matrix(kTokens, kOutputs, 1);
  std::vector<float> y(size(kTokens) * size(kOutputs)), dw(size(kOutputs) * size(kInputs)),
      dx(size(kTokens) * size(kInputs));
  for (const OperandFormat& forward : {kBf16Format, mx_format(ElementFormat::e4m3)}) {
    ClassPrecision formats;
    formats.formats.fill(kBf16Format);
    formats.formats[0] = formats.formats[1] = forward;
    formats.plain = false;
    GemmSums sums{};
    LinearPrecision precision;
    precision.formats = &formats, precision.sums = &sums;
    for (int pass = 0; pass < 2; ++pass) {
      linear_forward(x.v.data(), kTokens, kInputs, w.v.data(), kOutputs, y.data(), false, precision);
      linear_backward(dy.v.data(), kTokens, kOutputs, x.v.data(), w.v.data(), kInputs, dw.data(), dx.data(), false,
                      precision);
    }
    for (const OperandRole operand : {OperandRole::x, OperandRole::w}) {
      const Direction direction = operand == OperandRole::x ? Direction::wgrad : Direction::dgrad;
      const QuantSums &before = sums[operand_index(Direction::forward, operand)],
                      &again = sums[operand_index(direction, operand)];
      EXPECT_EQ(again.elements, 2 * (operand == OperandRole::x ? x : w).v.size());
      EXPECT_EQ(again.err2 == before.err2, forward == kBf16Format);
      EXPECT_NEAR(again.sqnr_db(), 56, 1);
    }
  }
}
