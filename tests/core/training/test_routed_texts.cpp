#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "core/files/text/text_escape.h"
#include "core/frame/specialisation.h"
#include "core/numerics/threads.h"
#include "core/training/routed_texts.h"
#include "core/training/trainer.h"
#include "tests/support/small_run.h"

namespace moescope {
namespace {

RunConfig small_config() {
  RunConfig c = small_run();
  c.data.batch = 3;
  c.data.seq = 40;
  c.telemetry.texts_every = 2;
  c.telemetry.sample_every = 3;
  c.telemetry.sample_length = 20;
  c.telemetry.specialisation_every = 3;
  c.telemetry.probe = "abc 12+30=42\\nThe old king sees the river, and he greets it.";
  return c;
}

const TokenFrame* text_of(const TelemetryFrame& frame, TextKind kind) {
  const auto found = std::ranges::find(frame.texts, kind, &TokenFrame::kind);
  return found == frame.texts.end() ? nullptr : &*found;
}

class RoutedTextsTest : public testing::Test {
 protected:
  TelemetryFrame step(Trainer& trainer) { return trainer.step(data_->batch(trainer.steps_taken())); }
  RunConfig config_ = small_config();
  std::unique_ptr<Dataset> data_ = open_dataset(config_.data, config_.seed);
};

// Training gives the same bits with all of these texts and with none, in any number format: stochastic rounding draws
// random bits, too.
TEST_F(RoutedTextsTest, TrainingIsTheSameWithAndWithout) {
  for (const Recipe recipe : {Recipe::fp32, Recipe::mxfp4}) {
    config_.precision.experts = config_.precision.router_gate = recipe;
    config_.precision.rounding = recipe == Recipe::fp32 ? Rounding::nearest : Rounding::stochastic;
    config_.router.aux_mode = AuxMode::sequence;
    config_.router.aux_coeff = 0.01;
    RunConfig silent = config_;
    silent.telemetry.texts_every = silent.telemetry.sample_every = silent.telemetry.specialisation_every = 0;
    Trainer with(config_), without(silent);
    for (int i = 0; i < 9; ++i) {
      const TelemetryFrame a = step(with), b = step(without);
      EXPECT_EQ(a.texts.empty(), i % 2 != 0 && i % 3 != 0) << i;
      EXPECT_TRUE(b.texts.empty() && b.specialisation.empty());
      EXPECT_EQ(std::memcmp(&a.ce_loss, &b.ce_loss, sizeof a.ce_loss), 0) << i;
      EXPECT_EQ(a.grad_norm, b.grad_norm) << i;
      EXPECT_EQ(a.routers[1].tokens_per_expert, b.routers[1].tokens_per_expert);
      EXPECT_EQ(a.routers[1].expert_bias, b.routers[1].expert_bias);
    }
  }
}

TEST_F(RoutedTextsTest, TextsAreCompleteAtTheirCadence) {
  Trainer trainer(config_);
  for (int i = 0; i < 7; ++i) {
    const TelemetryFrame frame = step(trainer);
    EXPECT_EQ(text_of(frame, TextKind::probe) != nullptr, i % 2 == 0) << i;
    EXPECT_EQ(text_of(frame, TextKind::batch) != nullptr, i % 2 == 0) << i;
    EXPECT_EQ(text_of(frame, TextKind::sample) != nullptr, i % 3 == 0) << i;
    EXPECT_EQ(frame.specialisation.size(), i % 3 == 0 ? 2u : 0u) << i;
    for (const TokenFrame& text : frame.texts) {
      const std::size_t tokens = text.text.size();
      ASSERT_EQ(text.layers.size(), 2u);
      EXPECT_EQ(text.loss_T.size(), tokens);
      for (const TokenLayer& layer : text.layers) {
        ASSERT_EQ(layer.experts_TK.size(), 2 * tokens);
        EXPECT_EQ(layer.margin_T.size(), tokens);
        for (std::size_t t = 0; t < tokens; ++t) {
          EXPECT_LT(layer.experts_TK[2 * t], 8);
          EXPECT_NE(layer.experts_TK[2 * t], layer.experts_TK[2 * t + 1]);
          EXPECT_GE(layer.margin_T[t], 0);
        }
      }
    }
  }
}

TEST_F(RoutedTextsTest, TheLastStepOfTheScheduleHasTextsAndTables) {
  config_.optimizer.total_steps = 6;
  Trainer trainer(config_);
  TelemetryFrame frame;
  while (trainer.steps_taken() < 6) frame = step(trainer);  // 5 is a multiple of neither interval
  for (const TextKind kind : {TextKind::probe, TextKind::batch, TextKind::sample})
    EXPECT_NE(text_of(frame, kind), nullptr);
  EXPECT_EQ(frame.specialisation.size(), 2u);
}

// The probe is longer than a sequence: each piece is read without the earlier ones, and its first byte has no loss.
TEST_F(RoutedTextsTest, ProbeIsReadInPiecesOfTheSequenceLength) {
  Trainer trainer(config_);
  const TelemetryFrame frame = step(trainer);
  const TokenFrame& probe = *text_of(frame, TextKind::probe);
  EXPECT_EQ(probe.text, *unescape_bytes(config_.telemetry.probe));
  ASSERT_GT(probe.text.size(), 40u);
  for (std::size_t t = 0; t < probe.text.size(); ++t) EXPECT_EQ(is_missing(probe.loss_T[t]), t % 40 == 0) << t;

  // The second piece alone is routed the same way.
  config_.telemetry.probe = probe.text.substr(40);
  Trainer other(config_);
  const TelemetryFrame other_frame = step(other);
  const TokenFrame& piece = *text_of(other_frame, TextKind::probe);
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_TRUE(std::equal(piece.layers[i].experts_TK.begin(), piece.layers[i].experts_TK.end(),
                           probe.layers[i].experts_TK.begin() + 80));
  for (std::size_t t = 1; t < piece.text.size(); ++t) EXPECT_NEAR(piece.loss_T[t], probe.loss_T[40 + t], 1e-4);
}

// The passage of the batch has the routing and the losses of the training step itself.
TEST_F(RoutedTextsTest, PassageIsTheTrainingStepItself) {
  config_.data.batch = 1;
  config_.telemetry.texts_every = 1;
  data_ = open_dataset(config_.data, config_.seed);
  Trainer trainer(config_);
  const Batch batch = data_->batch(0);
  const TelemetryFrame frame = trainer.step(batch);
  const TokenFrame& passage = *text_of(frame, TextKind::batch);
  EXPECT_EQ(passage.domain, data_->domains()[static_cast<std::size_t>(batch.domain[0])]);
  ASSERT_EQ(passage.text.size(), 40u);
  for (std::size_t t = 0; t < 40; ++t) EXPECT_EQ(static_cast<unsigned char>(passage.text[t]), batch.input[t]);
  for (std::size_t i = 0; i < 2; ++i) {
    std::vector<std::uint32_t> counts(8);
    for (const std::uint16_t e : passage.layers[i].experts_TK) ++counts[e];
    EXPECT_EQ(counts, frame.routers[i].tokens_per_expert);
  }
  EXPECT_NEAR(std::accumulate(passage.loss_T.begin() + 1, passage.loss_T.end(), 0.0) / 39, frame.ce_loss, 0.3);
}

// Compares greedy writing, byte by byte, with a model that reads one more byte each time.
TEST_F(RoutedTextsTest, SampleEqualsByteByByteGeneration) {
  config_.telemetry.sample_temperature = 0;
  config_.telemetry.sample_every = 30;
  Trainer trainer(config_);
  for (int i = 0; i < 30; ++i) step(trainer);
  const TelemetryFrame frame = step(trainer);
  const TokenFrame& sample = *text_of(frame, TextKind::sample);
  EXPECT_EQ(sample.prompt, 20);  // half of a sequence
  EXPECT_EQ(sample.text.size(), 40u);
  Learner<float> learner(config_);
  PhaseClock clock;
  for (int i = 0; i < 31; ++i) learner.step(data_->batch(i), false, clock);
  std::string text = sample.text.substr(0, 20);
  while (text.size() < 40) {
    Transformer<float> model(config_, learner.parameters, 1, static_cast<int>(text.size()));
    Batch batch = empty_batch(1, static_cast<int>(text.size()));
    std::ranges::transform(text, batch.input.begin(), [](char c) { return static_cast<unsigned char>(c); });
    model.forward(batch, learner.expert_bias, false, clock);
    const auto row = model.logits().values(std::ssize(text) - 1);
    text += static_cast<char>(std::ranges::max_element(row) - row.begin());
  }
  EXPECT_EQ(sample.text, text);
}

TEST_F(RoutedTextsTest, SampleIsIndependentOfThreads) {
  config_.telemetry.sample_temperature = 1;
  std::vector<std::string> texts;
  for (const int threads : {1, 2, 2}) {
    set_num_threads(threads);
    Trainer trainer(config_);
    std::string all;
    for (int i = 0; i < 4; ++i) {
      const TelemetryFrame frame = step(trainer);
      if (const TokenFrame* sample = text_of(frame, TextKind::sample)) all += sample->text;
    }
    texts.push_back(all);
  }
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_EQ(texts[1], texts[2]);
  EXPECT_NE(texts[0].substr(0, 40), texts[0].substr(40)) << "other dice at each step";
}

TEST_F(RoutedTextsTest, AnEditedProbeIsRoutedAtTheNextStep) {
  config_.telemetry.texts_every = config_.telemetry.sample_every = 100;
  Trainer trainer(config_);
  step(trainer);
  EXPECT_TRUE(step(trainer).texts.empty());
  trainer.apply({0, &TelemetryConfig::probe, std::string("x = 7;\\x00\\xff")});
  const TelemetryFrame edited = step(trainer);
  ASSERT_NE(text_of(edited, TextKind::probe), nullptr);
  EXPECT_EQ(text_of(edited, TextKind::probe)->text, std::string("x = 7;\x00\xff", 8));
  EXPECT_NE(text_of(edited, TextKind::sample), nullptr);
  EXPECT_TRUE(step(trainer).texts.empty());
  EXPECT_THROW(trainer.apply({0, &TelemetryConfig::probe, std::string("a\\q")}), std::invalid_argument);
  trainer.apply({0, &TelemetryConfig::probe, std::string()});
  EXPECT_EQ(text_of(step(trainer), TextKind::probe), nullptr);
}

TEST_F(RoutedTextsTest, LiveTopKReachesTheProbe) {
  Trainer trainer(config_);
  step(trainer);
  step(trainer);
  trainer.apply({0, &RouterConfig::top_k, std::int64_t{3}});
  EXPECT_EQ(text_of(step(trainer), TextKind::probe)->layers[0].top_k, 3);
}

// The tables count every batch since the previous tables.
TEST_F(RoutedTextsTest, SpecialisationCountsEveryBatchSince) {
  Trainer trainer(config_);
  std::vector<SpecialisationFrame> tables;
  SpecialisationFrame expected;
  expected.domain_DE.resize(data_->domains().size() * 8);
  expected.together_EE.resize(64);
  expected.byte_256E.resize(256 * 8);
  step(trainer);
  for (int i = 1; i <= 3; ++i) {
    const Batch batch = data_->batch(i);
    const TelemetryFrame frame = trainer.step(batch);
    const LayerRouting routing = trainer.routing()[1];
    for (std::size_t slot = 0; slot < routing.ids_TK.size(); ++slot) {
      const std::size_t t = slot / 2, e = static_cast<std::size_t>(routing.ids_TK[slot]);
      ++expected.domain_DE[static_cast<std::size_t>(batch.domain[t / 40]) * 8 + e];
      ++expected.byte_256E[static_cast<std::size_t>(batch.input[t]) * 8 + e];
      for (std::size_t other = 2 * t; other < 2 * t + 2; ++other)
        ++expected.together_EE[e * 8 + static_cast<std::size_t>(routing.ids_TK[other])];
    }
    tables = frame.specialisation;
  }
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_EQ(tables[1].layer, 2);
  EXPECT_EQ(tables[1].domain_DE, expected.domain_DE);
  EXPECT_EQ(tables[1].together_EE, expected.together_EE);
  EXPECT_EQ(tables[1].byte_256E, expected.byte_256E);
}

TEST(TextEscape, RoundTripsEveryByte) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  const std::string text = escape_bytes(all);
  for (const char c : text) EXPECT_TRUE(c >= 0x20 && c < 0x7f);
  EXPECT_EQ(unescape_bytes(text), all);
  EXPECT_EQ(escape_bytes("a\nb\\"), "a\\nb\\\\");
  EXPECT_EQ(unescape_bytes("\xc3\xa9"), "\xc3\xa9");
  for (const char* bad : {"\\", "\\q", "\\x", "\\x1", "\\xg1", "\\x1g"}) EXPECT_FALSE(unescape_bytes(bad)) << bad;
}

TEST(HalfOctaves, BinsAgreeWithTheirEdges) {
  for (int bin = 1; bin < kHalfOctaves; ++bin) {
    EXPECT_EQ(half_octave_bin(half_octave_edge(bin)), bin);
    EXPECT_EQ(half_octave_bin(std::nextafter(half_octave_edge(bin), 0.0f)), bin - 1);
  }
  EXPECT_EQ(half_octave_bin(0), 0);
  EXPECT_EQ(half_octave_bin(1e-30f), 0);
  EXPECT_EQ(half_octave_bin(1), kHalfOctaves - 1);
  EXPECT_EQ(half_octave_bin(INFINITY), kHalfOctaves - 1);
}

}  // namespace
}  // namespace moescope
