// The effect of a single rounding to BF16 on the experts that a router chooses.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/numerics/rng.h"
#include "core/training/gradient_reference.h"
#include "tests/support/trainer_test.h"

namespace moescope {
namespace {

std::vector<float> normal_values(const char* what, std::size_t count, double sigma) {
  const RandomStream random(1, what);
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(sigma * random.normal(i));
  return values;
}

const RouterRoundingFrame& row_of(const std::vector<RouterRoundingFrame>& rows, RouterRounding rounding,
                                  int layer = -1) {
  return *std::ranges::find_if(rows, [&](const RouterRoundingFrame& row) {
    return row.rounding == rounding && (layer < 0 || row.layer == layer);
  });
}

// The size of GLM-5.2's router: 256 experts, top 8, and biases of 6.817 to 7.063, as arise if updates are not centered.
// In BF16 its 238 values became 8, and 98.5 % of the tokens got other experts (SGLang, pull request 37133). Inputs and
// weights are random here; the logits have a standard deviation of 0.1. With 0.5, half of the tokens get other experts.
struct LargeRouter {
  static constexpr int kTokens = 512, kExperts = 256, kDim = 64;
  RunConfig config;
  std::vector<float> h, gate, bias;

  LargeRouter()
      : h(normal_values("h", kTokens * kDim, 1)), gate(normal_values("gate", kExperts * kDim, 0.0125)), bias(kExperts) {
    config.router.top_k = 8;
    const RandomStream random(2, "bias");
    for (std::size_t e = 0; e < bias.size(); ++e) bias[e] = 6.817f + 0.246f * static_cast<float>(random.uniform(e));
  }
  std::vector<RouterRoundingFrame> roundings() const {
    return router_roundings(
        {config, 1, BatchPart(4, kTokens / 4), {h.data(), kTokens, kDim}, {gate.data(), kExperts, kDim}, bias});
  }
};

TEST(RouterRoundings, BiasesFarFromZeroLoseMost) {
  LargeRouter router;
  const auto far = router.roundings();
  ASSERT_EQ(far.size(), 4u);
  const RouterRoundingFrame &none = row_of(far, RouterRounding::none), &bias = row_of(far, RouterRounding::bias);
  EXPECT_EQ(none.changed, 0);
  EXPECT_GT(none.bias_values, 250);
  EXPECT_LE(bias.bias_values, 9) << "BF16 numbers between 4 and 8 are 1/32 apart";
  EXPECT_GT(bias.changed, 0.8f);
  EXPECT_LT(row_of(far, RouterRounding::operands).changed, bias.changed / 2);
  EXPECT_EQ(row_of(far, RouterRounding::operands).bias_values, none.bias_values);
}

TEST(RouterRoundings, OperandsChangeFewerChoicesThanStoredLogits) {
  LargeRouter router;
  std::ranges::fill(router.bias, 0.0f);
  const auto rows = router.roundings();
  EXPECT_EQ(row_of(rows, RouterRounding::bias).changed, 0) << "every format has the number 0";
  const RouterRoundingFrame& output = row_of(rows, RouterRounding::gate_output);
  EXPECT_GT(output.changed, row_of(rows, RouterRounding::operands).changed);
  const auto tokens = std::accumulate(output.margin_tokens.begin(), output.margin_tokens.end(), 0u);
  const auto flipped = std::accumulate(output.margin_flipped.begin(), output.margin_flipped.end(), 0u);
  EXPECT_EQ(tokens, static_cast<unsigned>(LargeRouter::kTokens));
  EXPECT_FLOAT_EQ(output.changed, static_cast<float>(flipped) / LargeRouter::kTokens);
  // No choice changes if the margin is above the largest rounding error of two sigmoid scores.
  for (int bin = half_octave_bin(0.05f); bin < kHalfOctaves; ++bin)
    EXPECT_EQ(output.margin_flipped[static_cast<std::size_t>(bin)], 0u) << bin;
}

// The rows of a training are those of a run that stores only this part of its router in BF16.
class RoundingsOfTraining : public TrainerTest {};

TEST_F(RoundingsOfTraining, EqualRoundingsOfARunWithTheFormat) {
  config_.telemetry.gradient_every = 1;
  config_.router.initial_bias = "1:0=7.001,1:1=7.013,1:2=6.997,1:3=7.02";
  config_.router.bias_centring = false;
  Trainer exact(config_);
  const TelemetryFrame frame = step(exact);
  for (const RouterRounding rounding : {RouterRounding::operands, RouterRounding::gate_output, RouterRounding::bias}) {
    RunConfig rounded = config_;
    if (rounding == RouterRounding::operands) rounded.precision.router_gate = Recipe::bf16;
    if (rounding == RouterRounding::gate_output) rounded.precision.gate_output = StoredFormat::bf16;
    if (rounding == RouterRounding::bias) rounded.router.bias_format = StoredFormat::bf16;
    Trainer other(rounded);
    const TelemetryFrame other_frame = step(other);
    const RouterRoundingFrame& row = row_of(frame.router_roundings, rounding, 1);
    EXPECT_EQ(row.max_vio, other_frame.routers[0].max_vio) << router_rounding_name(rounding);
  }
  EXPECT_EQ(row_of(frame.router_roundings, RouterRounding::none, 1).max_vio, frame.routers[0].max_vio);
  EXPECT_EQ(row_of(frame.router_roundings, RouterRounding::counts, 2).changed, 0) << "BF16 counts to 256";
  EXPECT_EQ(frame.router_roundings.size(), 2u * kNumRouterRoundings);
  EXPECT_EQ(frame.fp32_kl, 0) << "FP32 is its own reference";
  EXPECT_EQ(frame.fp32_any_layer_flipped, 0);
}

TEST_F(RoundingsOfTraining, AreEmptyWhereNoRouterChooses) {
  config_.telemetry.gradient_every = 1;
  config_.router.force_balance = true;
  Trainer forced(config_);
  EXPECT_TRUE(step(forced).router_roundings.empty());
}

// With the routing pinned, only the error of the arithmetic remains.
TEST_F(RoundingsOfTraining, PinnedGradientsAreWithoutTheFlips) {
  config_.telemetry.gradient_every = 1;
  config_.precision.router_gate = Recipe::mxfp4;
  Trainer trainer(config_);
  const TelemetryFrame frame = step(trainer);
  const GradientFrame& whole = frame.gradients.back();
  ASSERT_EQ(whole.group, GradientGroup::all);
  ASSERT_GT(frame.fp32_any_layer_flipped, 0.02f);
  EXPECT_GE(frame.fp32_any_layer_flipped,
            std::max(frame.rounding_flips[0].flip_rate, frame.rounding_flips[1].flip_rate));
  EXPECT_GT(whole.pinned_snr_db, whole.snr_db + 3);
  EXPECT_GT(whole.pinned_cosine, whole.cosine);
  EXPECT_GT(frame.fp32_kl, 0);
  EXPECT_GT(frame.fp32_k3, 0);
  EXPECT_GE(frame.fp32_any_layer_flipped, frame.fp32_ratio_beyond_2);
}

TEST_F(RoundingsOfTraining, PinnedEqualsUnpinnedWithoutFlips) {
  config_.telemetry.gradient_every = 1;
  Trainer trainer(config_);
  for (const GradientFrame& gradient : step(trainer).gradients) {
    EXPECT_EQ(gradient.pinned_snr_db, std::numeric_limits<float>::infinity());
    EXPECT_EQ(gradient.pinned_cosine, gradient.cosine);
  }
}

}  // namespace
}  // namespace moescope
