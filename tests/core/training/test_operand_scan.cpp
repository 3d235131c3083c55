#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/training/gradient_reference.h"
#include "core/training/operand_scan.h"
#include "core/training/trainer.h"
#include "tests/support/small_run.h"

namespace moescope {
namespace {

class OperandScanTest : public testing::Test {
 protected:
  Batch batch(std::int64_t step) const { return data_->batch(step); }
  std::vector<float> gradients(const char* operands, double& loss) const {
    RunConfig config = config_;
    config.precision = {};
    config.precision.operands = operands;
    Learner<float> learner(config);
    PhaseClock clock;
    loss = learner.forward(batch(0), false, clock).ce;
    learner.backward(batch(0), clock);
    return {learner.parameters.gradients.begin(), learner.parameters.gradients.end()};
  }

  RunConfig config_ = small_run();
  std::unique_ptr<Dataset> data_ = open_dataset(config_.data, config_.seed);
};

TEST_F(OperandScanTest, ScansOperandsThatTheRunRounds) {
  EXPECT_TRUE(scanned_operands(config_, std::nullopt).empty());
  config_.precision.experts = Recipe::mxfp8_rceil;
  EXPECT_EQ(scanned_operands(config_, std::nullopt).size(), 2u * 6) << "two MoE layers";
  config_.precision.operands = "1:experts.W=fp32, head.dY.wgrad=bf16";
  const auto operands = scanned_operands(config_, std::nullopt);
  EXPECT_EQ(operands.size(), 4u + 6 + 1);
  EXPECT_EQ(operand_recipes_text({operands.front()}), "1:experts.x.forward=mxfp8_rceil");
  EXPECT_EQ(operand_recipes_text({operands.back()}), "head.dY.wgrad=bf16");
  const ModelConfig& m = config_.model;
  const int moe = m.n_layers - m.n_dense_layers;
  const int classes = m.n_layers + m.n_dense_layers + moe * (m.n_shared > 0 ? 3 : 2) + 1;
  EXPECT_EQ(std::ssize(scanned_operands(config_, Recipe::mxfp4)), classes * 6);
  config_.precision.override_w = kBf16Format;
  EXPECT_THROW(scanned_operands(config_, std::nullopt), std::invalid_argument);
  EXPECT_NO_THROW(scanned_operands(config_, Recipe::mxfp4));
  config_.model.moe_inter = 40;
  EXPECT_THROW(scanned_operands(config_, Recipe::mxfp4), std::invalid_argument) << "40 values are no blocks of 32";
}

// The errors of an operand in a scan are those between two separate models, one of which rounds the operand.
TEST_F(OperandScanTest, ErrorsEqualSeparateModels) {
  config_.precision.experts = Recipe::mxfp4;
  Learner<float> learner(config_);
  const auto scan = scan_operands(learner, batch(0), std::nullopt, {});
  ASSERT_TRUE(scan);
  double loss = 0, rounded_loss = 0;
  const std::vector<float> exact = gradients("", loss);
  EXPECT_EQ(scan->loss, loss);
  double shares = 0;
  for (std::size_t i = 0; i < scan->effects.size(); ++i) {
    const OperandEffect& effect = scan->effects[i];
    const OperandRecipe operand{
        effect.gemm_class, effect.operand, Recipe::mxfp4, effect.gemm, {effect.layer, effect.layer}};
    EXPECT_EQ(effect.recipe, "mxfp4");
    const std::vector<float> rounded = gradients(operand_recipes_text({operand}).c_str(), rounded_loss);
    double squares = 0, norm = 0;
    for (std::size_t k = 0; k < exact.size(); ++k) {
      squares += std::pow(static_cast<double>(rounded[k]) - static_cast<double>(exact[k]), 2);
      norm += std::pow(static_cast<double>(exact[k]), 2);
    }
    EXPECT_NEAR(effect.gradient_error, std::sqrt(squares / norm), 1e-9)
        << operand_name(effect.operand) << " of layer " << effect.layer;
    EXPECT_EQ(effect.loss_change, rounded_loss - loss) << operand_name(effect.operand) << " of layer " << effect.layer;
    if (effect.gemm != Direction::forward) {
      EXPECT_EQ(effect.loss_change, 0) << operand_name(effect.operand) << " of layer " << effect.layer;
    }
    EXPECT_LE(effect.gradient_error, scan->effects[i > 0 ? i - 1 : 0].gradient_error);
    shares += effect.share;
  }
  EXPECT_NEAR(shares, 1, 1e-12);
  EXPECT_GT(scan->all_gradient_error, scan->effects.front().gradient_error);
}

TEST_F(OperandScanTest, LeavesTheTrainingAsItIsAndCanBeCancelled) {
  config_.precision.experts = Recipe::mxfp8_rceil;
  Trainer scanned(config_), other(config_);
  scanned.step(batch(0));
  other.step(batch(0));
  int calls = 0;
  EXPECT_FALSE(scanned.scan_operands(batch(1), Recipe::mxfp4, [&](int done, int total) {
    EXPECT_EQ(done, ++calls);
    EXPECT_GT(total, 50);
    return done < 3;
  }));
  EXPECT_EQ(calls, 3);
  const TelemetryFrame a = scanned.step(batch(1)), b = other.step(batch(1));
  EXPECT_EQ(a.ce_loss, b.ce_loss);
  EXPECT_EQ(a.grad_norm, b.grad_norm);
  EXPECT_EQ(scanned.step(batch(2)).ce_loss, other.step(batch(2)).ce_loss);
}

// In the reference every number format is FP32, also that of a single operand.
TEST_F(OperandScanTest, TheReferenceOfAComparisonRoundsNothing) {
  config_.precision.operands = "experts.W=mxfp4";
  EXPECT_TRUE(in_fp32(config_).precision.operands.empty());
}

}  // namespace
}  // namespace moescope
