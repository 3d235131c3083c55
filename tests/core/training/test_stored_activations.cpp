// Activations, residual stream, norm gains and router outputs stored in BF16, and their effect on the training.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/model/learner.h"
#include "tests/support/trainer_test.h"

namespace moescope {
namespace {

using Format = StoredFormat PrecisionConfig::*;
constexpr Format kFormats[] = {&PrecisionConfig::gate_output, &PrecisionConfig::activations, &PrecisionConfig::residual,
                               &PrecisionConfig::norm_gains};

bool has_bf16(float value) {
  return (std::bit_cast<std::uint32_t>(value) & 0xFFFF) == 0;
}
bool all_have_bf16(const Matrix<const float>& rows) {
  return std::all_of(rows.data, rows.data + rows.size(), has_bf16);
}

class StoredActivations : public TrainerTest {
 protected:
  StoredActivations() {
    PrecisionConfig& p = config_.precision;
    p.experts = p.shared_experts = p.dense_ffn = p.attention = p.head = Recipe::bf16;
  }
  // Returns the model after the forward pass of the first step.
  const Transformer<float>& after_forward() {
    learner_ = std::make_unique<Learner<float>>(config_);
    learner_->forward(data_->batch(0), false, clock_);
    return learner_->model();
  }
  PhaseClock clock_;
  std::unique_ptr<Learner<float>> learner_;
};

TEST_F(StoredActivations, RouterOutputsAreRoundedByTheirOwnKeyAlone) {
  const auto logits_have_bf16 = [&] {
    const auto& router = after_forward().moe()[0].router;
    return all_have_bf16(router.logits);
  };
  EXPECT_FALSE(logits_have_bf16());
  config_.precision.activations = StoredFormat::bf16;
  EXPECT_FALSE(logits_have_bf16()) << "the gate is in FP32";
  config_.precision.gate_output = StoredFormat::bf16;
  EXPECT_TRUE(logits_have_bf16());
}

TEST_F(StoredActivations, GemmsStoreBf16WhereTheirRecipeIsNotFp32) {
  config_.precision.activations = StoredFormat::bf16;
  config_.precision.shared_experts = Recipe::fp32;
  const MoeActivations<float>& moe = after_forward().moe()[0];
  EXPECT_TRUE(all_have_bf16(moe.h13.row_block(0, 160)));
  EXPECT_TRUE(all_have_bf16(moe.a.row_block(0, 160)));
  EXPECT_TRUE(all_have_bf16(moe.y));
  EXPECT_FALSE(all_have_bf16(moe.shared.h13)) << "the shared experts are in FP32";
  EXPECT_TRUE(all_have_bf16(after_forward().logits())) << "the head's output";
}

// Each format changes the losses a little, and all losses stay finite.
TEST_F(StoredActivations, EachFormatMovesTheLossALittle) {
  const auto losses = [&] {
    Trainer trainer(config_);
    std::vector<float> all;
    for (int i = 0; i < 6; ++i) all.push_back(step(trainer).ce_loss);
    return all;
  };
  const std::vector<float> exact = losses();
  for (const Format format : kFormats) {
    config_.precision.*format = StoredFormat::bf16;
    const std::vector<float> stored = losses();
    config_.precision.*format = StoredFormat::fp32;
    EXPECT_NE(exact, stored);
    for (std::size_t i = 0; i < exact.size(); ++i) EXPECT_NEAR(exact[i], stored[i], 0.02);
  }
}

// The rounding of stored values is an error of the size of BF16's, and the gradient keeps the direction of FP32's.
TEST_F(StoredActivations, TheGradientStaysCloseToFp32) {
  config_.telemetry.gradient_every = 1;
  const auto snr = [&] {
    Trainer trainer(config_);
    float snr_db = 1e9f;
    for (const GradientFrame& frame : step(trainer).gradients)
      if (frame.layer == -1 && frame.group == GradientGroup::all) snr_db = frame.snr_db;
    return snr_db;
  };
  const float operands = snr();
  for (const Format format : kFormats) config_.precision.*format = StoredFormat::bf16;
  const float everything = snr();
  EXPECT_LT(everything, operands) << "FP32's reference stores nothing in BF16";
  EXPECT_GT(everything, 20);
}

TEST_F(StoredActivations, NormGainsAreRoundedWhereTheyAreUsed) {
  config_.precision.norm_gains = StoredFormat::bf16;
  Trainer trainer(config_);
  const TelemetryFrame first = step(trainer);
  config_.precision.norm_gains = StoredFormat::fp32;
  Trainer exact(config_);
  EXPECT_EQ(first.ce_loss, step(exact).ce_loss) << "all gains begin at 1";
  step(trainer);
  step(exact);
  EXPECT_NE(step(trainer).ce_loss, step(exact).ce_loss);
}

}  // namespace
}  // namespace moescope
