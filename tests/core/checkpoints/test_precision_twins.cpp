// Operands of a checkpoint's products rounded to a format, and what that does to its predictions.
#include <gtest/gtest.h>

#include <cmath>

#include "core/checkpoints/precision_twins.h"
#include "core/numerics/gemm.h"
#include "tests/support/kept_logits.h"
#include "tests/support/small_checkpoint.h"

namespace moescope {
namespace {

// Also where one scale is of the whole tensor, which is read in pieces.
TEST(PrecisionTwins, products_are_those_of_the_rounded_operands) {
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
  const auto lost = std::make_shared<std::atomic<bool>>(false);
  for (const Recipe recipe :
       {Recipe::mxfp4, Recipe::nvfp4, Recipe::fp8_tensorwise, Recipe::fp8_rowwise, Recipe::bf16}) {
    const OperandRounding rounding{recipe_format(recipe, Direction::forward, OperandRole::x),
                                   recipe_format(recipe, Direction::forward, OperandRole::w)};
    const StoredLinear linear{.weight = {file.at("w"), 0, false, lost}, .rounding = &rounding};
    std::vector<float> y(kRows * kOutputs), want(kRows * kOutputs), qx(x.size()), qw(w.size());
    linear_forward({x.data(), kRows, kInputs}, linear, {y.data(), kRows, kOutputs});
    quantize_operand(Operand<float>{.matrix = {x.data(), kRows, kInputs}, .format = rounding.x},
                     {qx.data(), kRows, kInputs});
    quantize_operand(Operand<float>{.matrix = {w.data(), kOutputs, kInputs}, .format = rounding.w},
                     {qw.data(), kOutputs, kInputs});
    gemm(Trans::no, Trans::yes, 1.0f, Matrix<float>(qx.data(), kRows, kInputs),
         Matrix<float>(qw.data(), kOutputs, kInputs), 0.0f, Matrix<float>(want.data(), kRows, kOutputs));
    for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], want[i], 1e-4) << recipe_info(recipe).name << i;
  }
}

TEST(PrecisionTwins, every_operand_is_ranked_and_nothing_stays_rounded) {
  const SmallCheckpoint folder("twins");
  CheckpointModel model(folder.path());
  const std::vector<LabelledText> texts = {{"a", SmallCheckpoint::some_ids(40)}, {"b", SmallCheckpoint::some_ids(25)}};
  KeptLogits before, after;
  model.forward(texts[0].ids, 1, 40, before);
  int last = 0, of = 0;
  const auto twins =
      compare_precision(model, texts, {.length = 16, .pieces = 4}, Recipe::mxfp4, [&](int done, int all) {
        EXPECT_EQ(done, last + 1);
        last = done, of = all;
      });
  EXPECT_EQ(last, of);
  model.forward(texts[0].ids, 1, 40, after);
  EXPECT_EQ(after.all, before.all);
  // x and W of attention and experts in two layers, and of the head; and all of them.
  ASSERT_EQ(twins.size(), 2u * 2 * 2 + 2 + 1);
  EXPECT_EQ(twin_name(twins[0]), "all operands");
  EXPECT_EQ(of, 4 * 12);
  for (std::size_t i = 1; i < twins.size(); ++i) {
    EXPECT_GT(twins[i].divergence.mean, 0) << twin_name(twins[i]);
    EXPECT_LT(twins[i].divergence.mean, twins[0].divergence.mean) << twin_name(twins[i]);
    if (i > 1) {
      EXPECT_LE(twins[i].divergence.mean, twins[i - 1].divergence.mean);
    }
    EXPECT_GT(twins[i].divergence.interval, 0);
  }
  // The head comes after every router.
  for (const PrecisionTwin& twin : twins) {
    if (twin.gemm_class == GemmClass::head && !twin.all) {
      EXPECT_EQ(twin.flips.mean, 0);
    }
  }
  const auto fine = compare_precision(model, texts, {.length = 16, .pieces = 1}, Recipe::bf16, [](int, int) {});
  EXPECT_LT(fine[0].divergence.mean, twins[0].divergence.mean / 50);
  EXPECT_TRUE(std::isnan(fine[0].divergence.interval));
}

}  // namespace
}  // namespace moescope
