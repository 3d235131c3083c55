// Linear layers: the figures of their quantizers.
#include <gtest/gtest.h>

#include "core/model/layers/linear.h"
#include "core/numerics/number_format.h"
#include "tests/support/sample_matrices.h"

using namespace moescope;

namespace {

constexpr int kTokens = 150, kOutputs = 64, kInputs = 96;

}  // namespace

// x of wgrad and W of dgrad are in BF16. If the forward pass is, too, they share its figures.
TEST(LinearBackward, CountsOperandsOfBackwardPass) {
  const TestMatrix x = normal_matrix(kTokens, kInputs, 2), w = normal_matrix(kOutputs, kInputs, 3);
  const TestMatrix dy = normal_matrix(kTokens, kOutputs, 1);
  TestMatrix y(kTokens, kOutputs), dw(kOutputs, kInputs), dx(kTokens, kInputs);
  for (const OperandFormat& forward : {kBf16Format, mx_format(ElementFormat::e4m3)}) {
    ClassPrecision formats;
    formats.formats.fill(kBf16Format);
    formats.formats[0] = formats.formats[1] = forward;
    formats.plain = false;
    GemmSums sums{};
    LinearPrecision precision;
    precision.formats = &formats;
    precision.sums = {&sums, 1};
    for (int pass = 0; pass < 2; ++pass) {
      linear_forward(x.view(), w.view(), y.view(), false, precision);
      linear_backward(dy.view(), x.view(), w.view(), dw.view(), dx.view(), false, precision);
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
