// The place of the first value that is not finite, and the operands from which that value is computed.
#include <gtest/gtest.h>

#include <cmath>

#include "core/model/non_finite.h"

using namespace moescope;

namespace {

OperandElement only_operand(const NonFinitePlace& at, const ModelConfig& model = {}) {
  const auto found = operands_at(at, model);
  EXPECT_EQ(found.size(), 1u) << at.text();
  return found.empty() ? OperandElement() : found[0];
}

}  // namespace

TEST(NonFinitePlace, IsReadFromItsText) {
  for (const char* text :
       {"layer 1, w1 and w3 x, expert 5, row 17, column 3: NaN", "output x, row 0, column 255: -infinity",
        "gradient of layers.1.moe.experts.w2, expert 6, row 4, column 7: infinity"}) {
    const auto place = non_finite_in(text);
    ASSERT_TRUE(place) << text;
    EXPECT_EQ(place->text(), text);
  }
  EXPECT_EQ(non_finite_in("layer 1, w2 x, expert 5, row 17, column 3: NaN")->expert, 5);
  for (const char* text : {"", "layer 1, w2 x, row 17, column 3: 2", "layer 1, w2 x, row 17: NaN",
                           "row 1, column 2: NaN", "layer 1, w2 x, row -1, column 3: NaN"})
    EXPECT_FALSE(non_finite_in(text)) << text;
}

TEST(NonFinitePlace, LeadsToTheOperandThatHoldsTheValue) {
  EXPECT_EQ(only_operand({2, "SwiGLU", 5, 17, 3, NAN}),
            (OperandElement{{2, Gemm::expert_w2, OperandRole::x, Direction::forward}, 5, 17, 3}));
  ModelConfig model;
  model.q_lora_rank = 8;
  EXPECT_EQ(only_operand({2, "attention_norm", -1, 4, 9, NAN}, model),
            (OperandElement{{2, Gemm::wq_a, OperandRole::x, Direction::forward}, -1, 4, 9}));
}

// y = x W^T: element (17, F + 3) of x [w1; w3]^T is row 17 of x times row 3 of w3.
TEST(NonFinitePlace, LeadsToTheFactorsOfAProduct) {
  ModelConfig model;
  model.n_dense_layers = 1;
  model.moe_inter = 128;
  const auto found = operands_at({2, "w1 and w3 x", 5, 17, 128 + 3, INFINITY}, model);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0], (OperandElement{{2, Gemm::expert_w3, OperandRole::x, Direction::forward}, 5, 17, -1}));
  EXPECT_EQ(found[1], (OperandElement{{2, Gemm::expert_w3, OperandRole::w, Direction::forward}, 5, 3, -1}));
  EXPECT_EQ(operands_at({0, "w1 and w3 x", -1, 17, 3, NAN}, model).at(1).place.gemm, Gemm::dense_w1);
}

// dW = dY^T x: element (4, 7) is column 4 of dY times column 7 of x.
TEST(NonFinitePlace, LeadsToTheFactorsOfAGradient) {
  const auto found = operands_at({-1, "gradient of layers.11.moe.experts.w2", 6, 4, 7, NAN}, {});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0], (OperandElement{{11, Gemm::expert_w2, OperandRole::dy, Direction::wgrad}, 6, -1, 4}));
  EXPECT_EQ(found[1], (OperandElement{{11, Gemm::expert_w2, OperandRole::x, Direction::wgrad}, 6, -1, 7}));
  EXPECT_EQ(operands_at({-1, "gradient of output.weight", -1, 4, 7, NAN}, {}).at(0).place.gemm, Gemm::output);
  EXPECT_TRUE(operands_at({-1, "gradient of layers.0.attention_norm.weight", -1, 0, 7, NAN}, {}).empty());
}
