// Operands of a checkpoint's products rounded to a format, and the effect on its predictions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/checkpoints/ablation/scans.h"
#include "core/config/config_toml.h"
#include "core/numerics/gemm.h"
#include "tests/support/kept_logits.h"
#include "tests/support/small_checkpoint.h"

namespace moescope {
namespace {

bool go_on(int, int) {
  return true;
}

// Includes formats with one scale for the whole tensor, whose weights are read in pieces.
TEST(PrecisionTwins, ProductsAreThoseOfTheRoundedOperands) {
  const SmallCheckpoint folder("rounded");
  const RandomStream stream(8, "rounded");
  constexpr Index kOutputs = 200, kInputs = 64, kRows = 5;
  std::vector<float> w(kOutputs * kInputs), x(kRows * kInputs);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(stream.normal(i));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(stream.normal(100000 + i));
  SafetensorsWriter writer;
  writer.add("w", DType::f32, {kOutputs, kInputs}, std::as_bytes(std::span(w)));
  writer.write(folder.file("w.safetensors"));
  const SafetensorsFile file(folder.file("w.safetensors"));
  const auto failure = std::make_shared<ReadFailure>();
  for (const Recipe recipe :
       {Recipe::mxfp4, Recipe::nvfp4, Recipe::fp8_tensorwise, Recipe::fp8_rowwise, Recipe::bf16}) {
    const OperandRounding rounding{recipe_format(recipe, Direction::forward, OperandRole::x),
                                   recipe_format(recipe, Direction::forward, OperandRole::w)};
    const StoredLinear linear(StoredMatrix(file.at("w"), 0, false, failure), Arithmetic::fp32, &rounding);
    std::vector<float> y(kRows * kOutputs), want(kRows * kOutputs), qx(x.size()), qw(w.size());
    linear.forward({x.data(), kRows, kInputs}, {y.data(), kRows, kOutputs});
    quantize_operand(Operand<float>{.matrix = {x.data(), kRows, kInputs}, .format = rounding.x},
                     {qx.data(), kRows, kInputs});
    quantize_operand(Operand<float>{.matrix = {w.data(), kOutputs, kInputs}, .format = rounding.w},
                     {qw.data(), kOutputs, kInputs});
    gemm(Trans::no, Trans::yes, 1.0f, Matrix<float>(qx.data(), kRows, kInputs),
         Matrix<float>(qw.data(), kOutputs, kInputs), 0.0f, Matrix<float>(want.data(), kRows, kOutputs));
    for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], want[i], 1e-4) << recipe_info(recipe).name << i;
  }
}

TEST(PrecisionTwins, EveryOperandIsRankedAndNothingStaysRounded) {
  const SmallCheckpoint folder("twins");
  CheckpointModel model(folder.path());
  const std::vector<LabelledText> texts = {{"a", SmallCheckpoint::some_ids(40)}, {"b", SmallCheckpoint::some_ids(25)}};
  KeptLogits before, after;
  model.forward(texts[0].ids, 1, 40, before);
  int last = 0, total = 0;
  const PrecisionScan scan =
      compare_precision(model, texts, {.length = 16, .pieces = 4}, Recipe::mxfp4, [&](int done, int all) {
        EXPECT_EQ(done, last + 1);
        last = done;
        total = all;
        return true;
      });
  const std::vector<PrecisionTwin>& twins = scan.twins;
  EXPECT_EQ(last, total);
  model.forward(texts[0].ids, 1, 40, after);
  EXPECT_EQ(after.all, before.all);
  EXPECT_EQ(scan.pieces, 4);
  // x and W of attention and of experts, in each of two layers and in both; x and W of the head; all operands.
  ASSERT_EQ(twins.size(), 2u * 2 * 3 + 2 + 1);
  EXPECT_EQ(twin_name(twins[0]), "all operands");
  EXPECT_EQ(total, 4 * (16 + static_cast<int>(published_recipe_names().size())));
  for (std::size_t i = 1; i < twins.size(); ++i) {
    EXPECT_GT(twins[i].divergence.mean, 0) << twin_name(twins[i]);
    EXPECT_LT(twins[i].divergence.mean, twins[0].divergence.mean) << twin_name(twins[i]);
    if (i > 1) {
      EXPECT_LE(twins[i].divergence.mean, twins[i - 1].divergence.mean);
    }
    EXPECT_GT(twins[i].divergence.interval, 0);
  }
  // No router comes after the head.
  for (const PrecisionTwin& twin : twins) {
    if (twin.gemm_class == GemmClass::head) {
      EXPECT_EQ(twin.flips.mean, 0);
    }
  }
  const auto fine = compare_precision(model, texts, {.length = 16, .pieces = 1}, Recipe::bf16, go_on).twins;
  EXPECT_LT(fine[0].divergence.mean, twins[0].divergence.mean / 50);
  EXPECT_TRUE(std::isnan(fine[0].divergence.interval));
}

// A recipe whose forward pass only rounds to BF16 changes nearly nothing; one of 4 bits changes a lot.
TEST(PrecisionTwins, PublishedRecipesAreMeasuredInTheirForwardPass) {
  const SmallCheckpoint folder("published");
  CheckpointModel model(folder.path());
  const std::vector<LabelledText> texts = {{"a", SmallCheckpoint::some_ids(64)}};
  const PrecisionScan scan = compare_precision(model, texts, {.length = 16, .pieces = 4}, Recipe::mxfp4, go_on);
  ASSERT_EQ(scan.published.size(), published_recipe_names().size());
  const auto named = [&](const char* name) { return *std::ranges::find(scan.published, name, &PublishedFit::name); };
  const PublishedFit fine = named("mxfp4_backward"), coarse = named("mxfp4_fixed_hadamard");
  EXPECT_GT(fine.divergence.mean, 0);
  EXPECT_LT(fine.divergence.mean, coarse.divergence.mean / 50);
  // Experts, dense layers and the shared expert in mxfp4, attention and head in bf16: less than all in mxfp4.
  EXPECT_LT(coarse.divergence.mean, scan.twins[0].divergence.mean);
  EXPECT_EQ(fit_of(fine, scan.loss, 0.0025), Fit::within);
  PublishedFit made_up{"", {.mean = 0.02, .interval = 0.005}, {}};
  EXPECT_EQ(fit_of(made_up, 4, 0.0025), Fit::beyond);
  made_up.loss_change.interval = 0.015;
  EXPECT_EQ(fit_of(made_up, 4, 0.0025), Fit::open);
  made_up.loss_change.interval = NAN;
  EXPECT_EQ(fit_of(made_up, 400, 0.0025), Fit::open) << "one piece has no interval";
}

// The divergence for all layers is that of both layers' operands rounded together, not that of single layers.
TEST(PrecisionTwins, TheCostliestIsOfOneLayerAndOthersLieBehindIt) {
  const SmallCheckpoint folder("costliest");
  CheckpointModel model(folder.path());
  const std::vector<LabelledText> texts = {{"a", SmallCheckpoint::some_ids(64)}};
  const PrecisionScan scan = compare_precision(model, texts, {.length = 16, .pieces = 4}, Recipe::mxfp4, go_on);
  const PrecisionTwin* worst = scan.costliest();
  ASSERT_NE(worst, nullptr);
  EXPECT_EQ(worst->scope, PrecisionTwin::Scope::one_layer);
  EXPECT_EQ(worst->behind.mean, 0);
  for (const PrecisionTwin& twin : scan.twins) {
    EXPECT_GE(twin.behind.mean, 0) << twin_name(twin);
    if (twin.scope == PrecisionTwin::Scope::one_layer) {
      EXPECT_NEAR(twin.behind.mean, worst->divergence.mean - twin.divergence.mean, 1e-12) << twin_name(twin);
    }
  }
  const auto all_x = std::ranges::find_if(
      scan.twins, [](const PrecisionTwin& twin) { return twin_name(twin) == "all layers, experts, x"; });
  ASSERT_NE(all_x, scan.twins.end());
  for (const PrecisionTwin& twin : scan.twins)
    if (twin.scope == PrecisionTwin::Scope::one_layer && twin.gemm_class == GemmClass::experts &&
        twin.operand == OperandRole::x) {
      EXPECT_LT(twin.divergence.mean, all_x->divergence.mean);
    }
}

TEST(PrecisionTwins, StoppedBetweenPasses) {
  const SmallCheckpoint folder("stopped");
  CheckpointModel model(folder.path());
  const std::vector<LabelledText> texts = {{"a", SmallCheckpoint::some_ids(16)}};
  KeptLogits before, after;
  model.forward(texts[0].ids, 1, 16, before);
  const PrecisionScan scan =
      compare_precision(model, texts, {.length = 16}, Recipe::mxfp4, [](int done, int) { return done < 3; });
  EXPECT_TRUE(scan.twins.empty());
  EXPECT_EQ(scan.costliest(), nullptr);
  model.forward(texts[0].ids, 1, 16, after);
  EXPECT_EQ(after.all, before.all);
}

}  // namespace
}  // namespace moescope
