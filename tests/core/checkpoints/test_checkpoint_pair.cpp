// Two checkpoints on the same texts: which experts, predictions and weights differ.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "core/checkpoints/pair/checkpoint_pair.h"
#include "core/files/tensors/open_tensors.h"
#include "core/findings/comparison/verdict_words.h"
#include "tests/support/problem_of.h"
#include "tests/support/small_checkpoint.h"

namespace moescope {
namespace {

constexpr const char* kExpert = "model.layers.0.block_sparse_moe.experts.2.w2.weight";

// Writes the weights of a checkpoint again, with one tensor multiplied by `factor`.
void scale_tensor(const SmallCheckpoint& folder, const std::string& name, float factor) {
  std::map<std::string, std::vector<float>> values;
  std::map<std::string, std::vector<std::size_t>> shapes;
  {
    const TensorFile file = open_tensors(folder.path());
    for (const TensorView& tensor : file.tensors()) {
      values[tensor.name] = tensor.floats();
      shapes[tensor.name] = tensor.shape;
    }
  }
  for (float& value : values.at(name)) value *= factor;
  SafetensorsWriter writer;
  for (const auto& [name, tensor_values] : values)
    writer.add(name, DType::f32, shapes[name], std::as_bytes(std::span(tensor_values)));
  writer.write(folder.file("model.safetensors"));
}

std::vector<LabelledText> texts() {
  return {{"a", SmallCheckpoint::some_ids(40)}, {"b", SmallCheckpoint::some_ids(31)}};
}

struct Ran {
  std::vector<CheckpointPair::Frames> frames;
  WeightDifference weights;
  std::shared_ptr<History> a, b;
};
Ran run_pair(const SmallCheckpoint& a, const SmallCheckpoint& b) {
  const CheckpointModel model_a(a.path()), model_b(b.path());
  const std::vector<LabelledText> both = texts();
  TextSources sources;
  sources.length = 16;
  sources.token_ids = {"a.txt", "b.txt"};
  CheckpointPair pair({model_a, a.path()}, {model_b, b.path()}, both, sources, nullptr);
  pair.set_weights(weight_difference(model_a, model_b, [](double) { return true; }));
  Ran ran{.frames = {},
          .weights = pair.weights(),
          .a = std::make_shared<History>(pair.a().info()),
          .b = std::make_shared<History>(pair.b().info())};
  ran.a->append(Marker{0, 0, kSettingsMarker, pair.a().settings()});
  ran.b->append(Marker{1, 0, kSettingsMarker, pair.b().settings()});
  for (std::int64_t step = 0; step < pair.steps(); ++step) {
    ran.frames.push_back(pair.step());
    ran.a->append(std::make_shared<const TelemetryFrame>(ran.frames.back().a));
    ran.b->append(std::make_shared<const TelemetryFrame>(ran.frames.back().b));
  }
  return ran;
}

TEST(CheckpointPair, ACopyDiffersInNothing) {
  const SmallCheckpoint a("pair_a"), b("pair_copy");
  const Ran ran = run_pair(a, b);
  ASSERT_EQ(ran.frames.size(), 5u);  // pieces of 16, 16 and 8 tokens, and of 16 and 15
  for (const CheckpointPair::Frames& frames : ran.frames) {
    EXPECT_EQ(frames.a.run, 0);
    EXPECT_EQ(frames.b.run, 1);
    EXPECT_EQ(frames.b.fp32_kl, 0);
    EXPECT_EQ(frames.b.fp32_any_layer_flipped, 0);
    ASSERT_EQ(frames.b.flips.size(), SmallCheckpoint::kLayers);
    EXPECT_TRUE(is_missing(frames.a.fp32_kl)) << "A is the reference";
  }
  EXPECT_EQ(ran.weights.text(), "weights differ in 0 of 8 experts; and in 0 of 17 other tensors");
  const Conclusion c = conclude(ran.a, {ran.b}, {});
  EXPECT_EQ(c.verdict, Verdict::identical);
  EXPECT_NE(verdict_sentence(c).find(": the same losses to the bit over 5 batches of text"), std::string::npos)
      << verdict_sentence(c);
}

TEST(CheckpointPair, AChangedExpertIsNamed) {
  const SmallCheckpoint a("pair_b"), b("pair_changed");
  scale_tensor(b, kExpert, 1.5f);
  const Ran ran = run_pair(a, b);
  EXPECT_EQ(ran.weights.text().find("weights differ in 1 of 8 experts: layer 0 expert 2 by "), 0u)
      << ran.weights.text();
  EXPECT_NE(ran.weights.text().find("; and in 0 of 17 other tensors"), std::string::npos) << ran.weights.text();
  // |W_B - W_A| / |W_A| of the expert by hand: half the norm of w2, divided by the norm of w1, w2 and w3 together.
  double w2_squares = 0, all = 0;
  const TensorFile file = open_tensors(a.path());
  for (const TensorView& tensor : file.tensors()) {
    if (tensor.name.find("layers.0.block_sparse_moe.experts.2.") == std::string::npos) continue;
    for (const float value : tensor.floats()) {
      all += static_cast<double>(value) * static_cast<double>(value);
      if (tensor.name == kExpert) w2_squares += static_cast<double>(value) * static_cast<double>(value);
    }
  }
  const double expected = std::sqrt(0.25 * w2_squares / all);
  EXPECT_NEAR(static_cast<double>(ran.weights.layers.at(0).difference_E.at(2)), expected, 1e-5);
  const SpecialisationFrame& shown = ran.frames.back().b.specialisation.at(0);
  EXPECT_NEAR(static_cast<double>(shown.weight_sqnr_E.at(2)), -20 * std::log10(expected), 1e-3);
  EXPECT_TRUE(std::isinf(shown.weight_sqnr_E.at(1)));
  // The router of the changed layer has the same inputs in both models, the router of the next layer has not.
  double flips = 0, kl = 0;
  for (const CheckpointPair::Frames& frames : ran.frames) {
    EXPECT_EQ(frames.b.flips.at(0).flip_rate, 0);
    flips += static_cast<double>(frames.b.flips.at(1).flip_rate);
    kl += static_cast<double>(frames.b.fp32_kl);
    // k1 is the gap of the losses.
    EXPECT_NEAR(frames.b.fp32_k1, frames.b.ce_loss - frames.a.ce_loss, 1e-5);
  }
  EXPECT_GT(flips, 0);
  EXPECT_GT(kl, 0);
}

// Compares with Student's interval over the batches, from the mean and the deviation of five gaps.
TEST(CheckpointPair, TheVerdictHasAnIntervalOverTexts) {
  const SmallCheckpoint a("pair_c"), b("pair_worse");
  scale_tensor(b, "lm_head.weight", 1.3f);
  const Ran ran = run_pair(a, b);
  double sum = 0, squares = 0;
  for (const CheckpointPair::Frames& frames : ran.frames)
    sum += static_cast<double>(frames.b.ce_loss - frames.a.ce_loss) / 5;
  for (const CheckpointPair::Frames& frames : ran.frames)
    squares += std::pow(static_cast<double>(frames.b.ce_loss - frames.a.ce_loss) - sum, 2);
  const Conclusion c = conclude(ran.a, {ran.b}, {});
  EXPECT_NEAR(static_cast<double>(c.gap), sum, 1e-5);
  EXPECT_NEAR(static_cast<double>(c.half_width), 2.776 * std::sqrt(squares / 4 / 5), 1e-3);
  EXPECT_NE(c.verdict, Verdict::too_short);
  EXPECT_NE(c.verdict, Verdict::no_twin);
  EXPECT_NE(verdict_sentence(c).find(" nats/token over 5 batches of text"), std::string::npos) << verdict_sentence(c);
}

TEST(CheckpointPair, OfOtherShapesOnlyWhatBothHaveIsCompared) {
  const SmallCheckpoint a("pair_d"), b("pair_shape");
  b.write_config({{"num_experts_per_tok", 1}});
  const Ran ran = run_pair(a, b);
  for (const CheckpointPair::Frames& frames : ran.frames) {
    EXPECT_TRUE(frames.b.flips.empty());
    EXPECT_TRUE(is_missing(frames.b.fp32_any_layer_flipped));
    EXPECT_GT(frames.b.fp32_kl, 0);
  }
  EXPECT_EQ(ran.weights.text(), "weights differ in 0 of 8 experts; and in 0 of 17 other tensors");
}

TEST(CheckpointPair, ADifferenceOfTheTokenizersIsNamed) {
  const SmallCheckpoint a("pair_e"), b("pair_tokens");
  const auto write = [](const SmallCheckpoint& folder, const char* text) {
    std::ofstream(folder.file("tokenizer.json")) << text;
  };
  require_same_tokenizer(a.path(), b.path());  // neither has a tokenizer
  write(a, R"({"version": "1.0", "truncation": null, "model": {"vocab": {"a": 0, "b": 1}, "merges": ["a b"]}})");
  write(b, R"({"truncation": {"max_length": 5}, "model": {"vocab": {"a": 0, "b": 1}, "merges": ["a b"]}})");
  require_same_tokenizer(a.path(), b.path());
  write(b, R"({"model": {"vocab": {"a": 0, "b": 7}, "merges": ["a b"]}})");
  const auto problem = [&] { return problem_of([&] { require_same_tokenizer(a.path(), b.path()); }); };
  EXPECT_EQ(problem(), "the tokenizers differ: model.vocab.b is 1 in A and 7 in B");
  write(b, R"({"model": {"vocab": {"a": 0, "b": 1}, "merges": []}})");
  EXPECT_EQ(problem(), "the tokenizers differ: model.merges has 1 entries in A and 0 in B");
  write(b, R"({"model": {"vocab": {"a": 0, "b": 1, "c": 2}, "merges": ["a b"]}})");
  EXPECT_EQ(problem(), "the tokenizers differ: model.vocab.c is in B alone");
  std::filesystem::remove(b.file("tokenizer.json"));
  std::filesystem::create_symlink(a.file("tokenizer.json"), b.file("tokenizer.json"));
  EXPECT_NE(problem().find("is a link to"), std::string::npos) << problem();
}

}  // namespace
}  // namespace moescope
