#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "core/config/config_difference.h"
#include "core/config/config_toml.h"
#include "core/config/run_config.h"
#include "core/findings/explain/explain.h"
#include "core/frame/frame.h"
#include "core/frame/model_scans.h"
#include "core/frame/router_stats.h"
#include "core/logs/lines/import_jsonl.h"
#include "core/model/text/dataset.h"
#include "core/numerics/processor.h"
#include "core/recording/history/router_window.h"
#include "core/training/engine/live_runs.h"
#include "core/training/trainer.h"
#include "tests/support/says.h"

namespace moescope {
namespace {

// Computes the value of an expression of the explain cards.
class Evaluator {
 public:
  static double value_of(const std::string& text) {
    Evaluator evaluator(text);
    const double value = evaluator.sum();
    if (evaluator.at_ != text.size()) throw std::invalid_argument("left over in: " + text);
    return value;
  }

 private:
  explicit Evaluator(const std::string& text) : text_(text) {}
  bool eat(const std::string& token) {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    if (text_.compare(at_, token.size(), token) != 0) return false;
    at_ += token.size();
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return true;
  }
  double sum() {
    double value = product();
    for (;;) {
      if (eat("+"))
        value += product();
      else if (eat("-"))
        value -= product();
      else
        return value;
    }
  }
  double product() {
    double value = power();
    for (;;) {
      if (eat("*"))
        value *= power();
      else if (eat("/"))
        value /= power();
      else
        return value;
    }
  }
  double power() {
    if (eat("-")) return -power();
    const double base = atom();
    return eat("^") ? std::pow(base, power()) : base;
  }
  std::vector<double> arguments() {
    std::vector<double> values{sum()};
    while (eat(",")) values.push_back(sum());
    if (!eat(")")) throw std::invalid_argument("no ) in: " + text_);
    return values;
  }
  double atom() {
    if (eat("(")) return arguments().at(0);
    if (eat("ln(")) return std::log(arguments().at(0));
    if (eat("log10(")) return std::log10(arguments().at(0));
    if (eat("exp(")) return std::exp(arguments().at(0));
    if (eat("sqrt(")) return std::sqrt(arguments().at(0));
    if (eat("cos(")) return std::cos(arguments().at(0));
    if (eat("ceil(")) return std::ceil(arguments().at(0));
    if (eat("max(")) return std::ranges::max(arguments());
    if (eat("mean(")) {
      const auto values = arguments();
      double total = 0;
      for (const double value : values) total += value;
      return total / static_cast<double>(values.size());
    }
    if (eat("median(")) {
      auto values = arguments();
      std::ranges::sort(values);
      const std::size_t middle = values.size() / 2;
      return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
    }
    std::size_t used = 0;
    const double value = std::stod(text_.substr(at_), &used);
    at_ += used;
    return value;
  }
  const std::string& text_;
  std::size_t at_ = 0;
};

void expect_it_adds_up(const Explanation& figure) {
  SCOPED_TRACE(std::string(figure.info->key) + ", " + figure.place + ": " + figure.expression);
  ASSERT_FALSE(figure.expression.empty());
  double result = 0;
  ASSERT_NO_THROW(result = Evaluator::value_of(figure.expression));
  EXPECT_NEAR(result, figure.value, 2e-4 * std::fabs(figure.value) + 2e-7);
  EXPECT_FALSE(figure.place.empty());
}

// Returns the metrics that a training here has; predicted_share exists in logs alone.
std::vector<Metric> trained_metrics() {
  std::vector<Metric> all;
  for (int m = 0; m < kNumMetrics; ++m)
    if (static_cast<Metric>(m) != Metric::predicted_share) all.push_back(static_cast<Metric>(m));
  return all;
}

std::vector<FigureKey> keys() {
  std::vector<FigureKey> all;
  for (const Metric metric : trained_metrics()) all.emplace_back(metric);
  for (const MetricInfo& info : kQuantMetrics) all.emplace_back(info);
  for (const MetricInfo& info : kArrayMetrics)
    if (std::string_view(info.key) != "output_similarity") all.emplace_back(info);  // measured on request
  return all;
}

// Two runs on the same batches with everything that can be measured: A in MXFP8 and B, its twin with other formats.
class Explain : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    RunConfig a = load_preset("nano").config;
    a.router.aux_mode = AuxMode::batch;
    a.router.aux_coeff = 0.01;
    a.router.z_coeff = 1e-3;
    a.router.capacity_factor = 1.1;
    a.telemetry.flips_every = 1;
    a.telemetry.gradient_every = 1;
    a.telemetry.window = 8;
    a.telemetry.specialisation_every = 8;
    a.telemetry.texts_every = 8;
    RunConfig b = a;
    b.precision.experts = Recipe::mxfp8_floor;
    b.seed = 2;
    live_ = std::make_unique<LiveRuns>(std::vector<RunConfig>{a, b}, "");
    live_->run_until(25);
    for (int i = 0; i < 6000 && (live_->status().running || live_->status().step < 25); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    live_->flush();
    ASSERT_EQ(live_->status().step, 25) << live_->status().error;
  }
  static void TearDownTestSuite() { live_.reset(); }
  static const History& b() {
    static std::shared_ptr<const History> history;
    history = live_->histories().at(1);
    return *history;
  }
  static std::unique_ptr<LiveRuns> live_;
};
std::unique_ptr<LiveRuns> Explain::live_;

TEST_F(Explain, RowSaysHowTheValueOfTheRunFollowsFromLayers) {
  constexpr std::int64_t kStep = 24;
  for (const Metric metric : trained_metrics()) {
    const MetricInfo& info = metric_info(metric);
    double sum = 0;
    int layers = 0;
    for (const int layer : b().info().moe_layers)
      if (const float value = b().value_at(metric, layer, kStep); std::isfinite(value)) {
        sum += value;
        ++layers;
      }
    EXPECT_EQ(layers == 0, info.run_value == RunValue::alone) << info.key;
    if (info.run_value != RunValue::mean_of_layers) continue;
    EXPECT_NEAR(sum / layers, b().value_at(metric, kWholeRun, kStep), 1e-5 * std::fabs(sum) + 1e-7) << info.key;
  }
}

TEST(ExplainEvaluator, Computes) {
  EXPECT_DOUBLE_EQ(Evaluator::value_of("-20 * log10(0.1)"), 20);
  EXPECT_DOUBLE_EQ(Evaluator::value_of("(96 - 64) / 64"), 0.5);
  EXPECT_DOUBLE_EQ(Evaluator::value_of("10 ^ (-40 / 20)"), 0.01);
  EXPECT_DOUBLE_EQ(Evaluator::value_of("median(1, 5, 2, 3)"), 2.5);
  EXPECT_THROW(Evaluator::value_of("1 2"), std::invalid_argument);
}

TEST_F(Explain, EveryFigureAddsUpAtALayer) {
  for (const FigureKey& key : keys()) {
    FigureTarget target{.key = key, .layer = 1, .expert = 3, .other = key == "byte_affinity" ? 101 : 2, .step = 24};
    Explanation figure = explain_figure(b(), target);
    if (figure.expression.empty()) {  // a figure of the run instead of a layer
      target.layer = kWholeRun;
      figure = explain_figure(b(), target);
    }
    expect_it_adds_up(figure);
  }
}

TEST(ExplainSimilarity, IsOfTheMeasurementAtTheStep) {
  ExpertSimilarity measured{.pieces = 4, .layers = {LayerSimilarity(1, 3)}};
  measured.layers[0].set(0, 2, {0.25, 0.03125});
  History history(RunInfo{});
  FigureTarget target{.key = "output_similarity", .layer = 1, .expert = 2, .other = 0, .step = 9};
  EXPECT_TRUE(explain_figure(history, target).expression.empty());
  history.append(Marker{0, 6, kSimilarityMarker, similarity_json(measured)});
  const Explanation figure = explain_figure(history, target);
  expect_it_adds_up(figure);
  EXPECT_EQ(figure.value, 0.25);
  EXPECT_EQ(figure.place, "layer 1, expert 2, step 6");
  EXPECT_NE(figure.note.find("experts 2 and 0; 95 % interval +-0.03125"), std::string::npos) << figure.note;
  measured.layers[0].set(0, 2, {0.5, 0.03125});
  history.append(Marker{0, 12, kSimilarityMarker, similarity_json(measured)});
  EXPECT_EQ(explain_figure(history, target).value, 0.25);
  target.step = 12;
  EXPECT_EQ(explain_figure(history, target).value, 0.5);
  target.step = 3;  // before the first measurement
  EXPECT_EQ(explain_figure(history, target).value, 0.25);
  target.other = 2;  // the expert itself
  EXPECT_TRUE(explain_figure(history, target).expression.empty());
}

TEST_F(Explain, ScalarsAddUpOverTheRunAtEveryStep) {
  for (const Metric metric : trained_metrics()) {
    for (const std::int64_t step : {0, 1, 19, 20, 24}) {
      const Explanation figure = explain_figure(b(), {.key = metric, .step = step});
      expect_it_adds_up(figure);
      EXPECT_FLOAT_EQ(static_cast<float>(figure.value), b().value_at(metric, kWholeRun, step));
    }
  }
}

TEST_F(Explain, EveryQuantizedOperandAddsUp) {
  const auto frame = b().quant_frame_at(24);
  ASSERT_TRUE(frame);
  ASSERT_FALSE(frame->quants.empty());
  for (const QuantFrame& quant : frame->quants) {
    for (const MetricInfo& info : kQuantMetrics) {
      const FigureTarget target{.key = info, .layer = quant.layer, .step = 24, .quant = quant};
      expect_it_adds_up(explain_figure(b(), target));
    }
  }
}

// Returns the history of one step of nano with experts in `recipe`.
std::shared_ptr<const History> one_step(Recipe recipe) {
  RunConfig config = load_preset("nano").config;
  config.precision.experts = recipe;
  config.telemetry.quant_every = 1;
  const auto data = open_dataset(config.data, config.seed);
  Trainer trainer(config);
  auto history = std::make_shared<History>(run_info(config, 0));
  history->append(std::make_shared<const TelemetryFrame>(trainer.step(data->batch(0))));
  return history;
}

// x of w1: 256 tokens x 2 experts x 64 features = 32,768 values.
TEST_F(Explain, FormatsAreNotTakenForMx) {
  const auto text = [](const std::shared_ptr<const History>& history, FigureKey key) {
    const Explanation figure = explain_figure(*history, {.key = key, .layer = 1, .step = 0});
    return figure.place + ": " + figure.expression + "; " + figure.note;
  };
  const auto nvfp4 = one_step(Recipe::nvfp4);
  EXPECT_TRUE(says(text(nvfp4, "sqnr_db"), " in nvfp4, step 0")) << text(nvfp4, "sqnr_db");
  EXPECT_TRUE(says(text(nvfp4, "sqnr_db"), "bell-shaped data have about 20.4 dB in this format"));
  EXPECT_TRUE(says(text(nvfp4, "clipped"), "of the 32,768 that 2,048 blocks of 16 contain at most"))
      << text(nvfp4, "clipped");
  EXPECT_TRUE(says(text(nvfp4, "crest"), "16 equal values give 1, a single non-zero value gives sqrt(16) = 4"))
      << text(nvfp4, "crest");
  EXPECT_FALSE(says(text(nvfp4, "e8m0_blocks"), "byte")) << text(nvfp4, "e8m0_blocks");
  EXPECT_TRUE(says(text(nvfp4, "e8m0_blocks"), " to under 2^")) << text(nvfp4, "e8m0_blocks");
  EXPECT_TRUE(says(text(nvfp4, "e8m0_blocks"), ", of 2,048")) << text(nvfp4, "e8m0_blocks");
  // A share of the values that are not zero gives no number of all values.
  EXPECT_FALSE(says(text(nvfp4, "underflow"), "about")) << text(nvfp4, "underflow");

  const auto floor = one_step(Recipe::mxfp8_floor);
  EXPECT_TRUE(says(text(floor, "sqnr_db"), "30.6 dB in this format")) << text(floor, "sqnr_db");
  EXPECT_TRUE(says(text(floor, "clipped"), "of the 32,768 that 1,024 blocks of 32 contain at most"))
      << text(floor, "clipped");
  EXPECT_TRUE(says(text(floor, "crest"), "sqrt(32) = 5.66")) << text(floor, "crest");
  EXPECT_TRUE(says(text(floor, "e8m0_blocks"), " (byte 1")) << text(floor, "e8m0_blocks");

  const auto tensorwise = one_step(Recipe::fp8_tensorwise);
  EXPECT_TRUE(says(text(tensorwise, "crest"), "a single non-zero value gives sqrt(n)")) << text(tensorwise, "crest");
  EXPECT_FALSE(says(text(tensorwise, "clipped"), "blocks of")) << text(tensorwise, "clipped");
  EXPECT_FALSE(says(text(tensorwise, "e8m0_blocks"), "byte")) << text(tensorwise, "e8m0_blocks");
}

TEST_F(Explain, RecordingsThatNameTheElementAloneAreNotGuessedAt) {
  QuantFrame quant;
  quant.layer = 1;
  quant.format = quant_format("e2m1");
  quant.sqnr_db = 20.1f;
  quant.clipped = 0.03f;
  quant.crest = 2.1f;
  quant.underflow = 0.07f;
  quant.e8m0_blocks[125] = 2048;
  TelemetryFrame frame;
  frame.quants = {quant};
  History history(RunInfo{});
  history.append(std::make_shared<const TelemetryFrame>(frame));
  for (const MetricInfo& info : kQuantMetrics) {
    const Explanation figure = explain_figure(history, {.key = info, .layer = 1, .step = 0});
    for (const char* guess : {"byte", "of 32", "(32)", "18.8", "65,5"})
      EXPECT_FALSE(says(figure.note, guess)) << figure.note;
  }
}

// An even load has E sum f P = 1 in the batch; in sequence mode each sequence has to be even.
TEST_F(Explain, TheBalanceLossIsExplainedByItsMode) {
  for (const AuxMode mode : {AuxMode::batch, AuxMode::sequence}) {
    RunConfig config = load_preset("nano").config;
    config.router.aux_mode = mode;
    config.router.aux_coeff = 0.01;
    const auto data = open_dataset(config.data, config.seed);
    Trainer trainer(config);
    History history(run_info(config, 0));
    history.append(std::make_shared<const TelemetryFrame>(trainer.step(data->batch(0))));
    const Explanation figure = explain_figure(history, {.key = "router_aux_loss", .layer = 1, .step = 0});
    expect_it_adds_up(figure);
    EXPECT_EQ(says(figure.note, "mean over sequences"), mode == AuxMode::sequence) << figure.note;
    EXPECT_EQ(says(figure.note, "1 at an even load"), mode == AuxMode::batch) << figure.note;
  }
}

TEST_F(Explain, NumbersAreThoseOfTheFrame) {
  const auto frame = b().frame_at(24);
  const RouterFrame& router = frame->routers[0];
  const Explanation use = explain_figure(b(), {.key = "utilisation", .layer = 1, .expert = 3, .step = 24});
  EXPECT_EQ(use.expression, std::to_string(router.tokens_per_expert[3]) + " * 8 / 512");
  EXPECT_EQ(use.place, "layer 1, expert 3, step 24");
  const Explanation together =
      explain_figure(b(), {.key = "utilisation", .layer = 1, .expert = 3, .step = 24, .uses_window = true});
  EXPECT_EQ(together.value, static_cast<double>(layer_window(b(), 1, 24).utilisation[3]));
  EXPECT_EQ(together.place, "layer 1, expert 3, steps 0 to 24 together");
  const auto largest_count = *std::ranges::max_element(router.tokens_per_expert);
  const Explanation vio = explain_figure(b(), {.key = "max_vio", .layer = 1, .step = 24});
  EXPECT_EQ(vio.expression, "(" + std::to_string(largest_count) + " - 64) / 64");
  EXPECT_NEAR(vio.value, static_cast<double>(router.max_vio), 1e-7);
  EXPECT_EQ(explain_figure(b(), {.key = "copies", .layer = 1, .step = 24}).expression, "256 * 2");
  const Explanation bias = explain_figure(b(), {.key = "expert_bias", .layer = 1, .expert = 3, .step = 24});
  EXPECT_NE(bias.expression.find_first_of("+-"), std::string::npos);
}

TEST_F(Explain, EveryCellOfTheGradientMatrixAddsUp) {
  const auto frame = b().gradient_frame_at(24);
  ASSERT_TRUE(frame);
  for (const GradientFrame& gradient : frame->gradients)
    for (const FigureKey& key : std::initializer_list<FigureKey>{"gradient_snr_db", "gradient_cosine"}) {
      const Explanation figure = explain_figure(
          b(), {.key = key, .layer = gradient.layer, .other = static_cast<int>(gradient.group), .step = 24});
      expect_it_adds_up(figure);
      EXPECT_FLOAT_EQ(static_cast<float>(figure.value), key == "gradient_cosine" ? gradient.cosine : gradient.snr_db);
      EXPECT_NE(figure.place.find(gradient_group_name(gradient.group)), std::string::npos);
    }
}

TEST_F(Explain, WhatIfsAreOfTheirOwnParameter) {
  const RouterFrame& router = b().frame_at(24)->routers[0];
  for (const double alignment : {8, 16, 128}) {
    const FigureTarget target{.key = "padding_fraction", .layer = 1, .step = 24, .parameter = alignment};
    const Explanation figure = explain_figure(b(), target);
    expect_it_adds_up(figure);
    EXPECT_FLOAT_EQ(static_cast<float>(figure.value),
                    padding_fraction(router.tokens_per_expert, static_cast<std::uint32_t>(alignment)));
  }
  for (const int layer : {1, kWholeRun})
    for (const double factor : {0.5, 1.25})
      for (const FigureKey key : {FigureKey("dropped_fraction"), FigureKey("filler_fraction")})
        expect_it_adds_up(explain_figure(b(), {.key = key, .layer = layer, .step = 24, .parameter = factor}));
  EXPECT_FLOAT_EQ(static_cast<float>(
                      explain_figure(b(), {.key = "filler_fraction", .layer = 1, .step = 24, .parameter = 1.25}).value),
                  filler_fraction(router.tokens_per_expert, 1.25));
  EXPECT_GT(explain_figure(b(), {.key = "dropped_fraction", .layer = 1, .step = 24, .parameter = 0.5}).value, 0.49);
}

TEST_F(Explain, VolumesAreThoseOfTheChosenAllToAll) {
  const VolumeFrame& volume = b().frame_at(24)->routers[0].volume;
  for (const bool lean : {false, true}) {
    const DispatchTotals totals = dispatch_totals(volume, lean);
    const auto value = [&](FigureKey key) {
      const Explanation figure =
          explain_figure(b(), {.key = key, .layer = 1, .other = lean ? 1 : 0, .step = 24, .parameter = 100});
      expect_it_adds_up(figure);
      return figure.value;
    };
    EXPECT_DOUBLE_EQ(value("bytes_moved"), totals.moved * 100);
    EXPECT_DOUBLE_EQ(value("bytes_across_nodes"), totals.across_nodes * 100);
    EXPECT_DOUBLE_EQ(value("dispatch_overload"), totals.max_over_mean);
    EXPECT_DOUBLE_EQ(value("saved_by_deepep"), saved_by_deepep(volume));
  }
}

TEST_F(Explain, StabilityIsAgainstTheStepThatIsShown) {
  const auto value = [](FigureKey key, int layer, std::int64_t reference) {
    const Explanation figure = explain_figure(b(), {.key = key, .layer = layer, .step = 24, .reference = reference});
    expect_it_adds_up(figure);
    EXPECT_NE(figure.note.find("step " + std::to_string(reference)), std::string::npos) << figure.note;
    return figure.value;
  };
  for (const int layer : {1, kWholeRun}) {
    EXPECT_EQ(value("unchanged_choices", layer, 24), 1);
    EXPECT_LE(value("unchanged_choices", layer, 0), value("routing_stability", layer, 0));
  }
}

TEST_F(Explain, KnobsSayWhatTheyAre) {
  const Explanation vio = explain_figure(b(), {.key = "max_vio", .step = 24});
  ASSERT_EQ(vio.knobs.size(), 2u);
  EXPECT_EQ(vio.knobs[0].key, "router.bias_update_rate");
  EXPECT_EQ(std::stod(vio.knobs[0].value), 0.001);
  EXPECT_EQ(std::stod(vio.knobs[1].value), 0.01);
}

TEST_F(Explain, TimesNameWhatMultiplied) {
  for (const FigureKey& key : {FigureKey("step_ms"), FigureKey("tokens_per_s")}) {
    const Explanation time = explain_figure(b(), {.key = key, .step = 24});
    EXPECT_NE(time.note.find("GEMMs: " + multiplied_by(b().info().kernels)), std::string::npos) << time.note;
  }
  EXPECT_EQ(explain_figure(b(), {.key = "ce_loss", .step = 24}).note.find("GEMMs"), std::string::npos);
}

TEST(RunSettings, HoldTheStartAndTheLiveChanges) {
  RunConfig config = load_preset("small").config;
  config.router.bias_update_rate = 0.002;
  History history(run_info(config, 0));
  ASSERT_TRUE(history.settings_at(0)->config());
  EXPECT_TRUE(difference(*history.settings_at(0)->config(), config).empty());
  EXPECT_EQ(history.settings_at(0)->text(&PrecisionConfig::experts), "mxfp8_rceil");
  history.append(change_marker(0, 10, "router.bias_update_rate", "0.002", "0.05"));
  history.append(change_marker(0, 20, "router.bias_update_rate_of_others", "1", "2"));
  history.append(change_marker(1, 25, "router.bias_update_rate", "0.002", "0.5"));
  history.append(change_marker(0, 15, "router.top_k", "2", "many"));
  EXPECT_EQ(history.settings_at(9)->config()->router.bias_update_rate, 0.002);
  EXPECT_EQ(history.settings_at(30)->config()->router.bias_update_rate, 0.05) << "another run's change, no number";
  EXPECT_EQ(history.settings_at_start()->config()->router.bias_update_rate, 0.002);
  history.forget_from(9);
  EXPECT_EQ(history.settings_at(30)->config()->router.bias_update_rate, 0.002);
}

TEST(RunSettings, TextsAreWhatTheyWereSetTo) {
  RunConfig config = load_preset("small").config;
  config.data.path = "/texts/c# and \"f#\" \\";
  config.telemetry.probe = "x = 1  # one";
  History history(run_info(config, 0));
  EXPECT_EQ(history.settings_at(0)->value(&DataConfig::path), config.data.path);
  EXPECT_EQ(history.settings_at(0)->text(&TelemetryConfig::probe), config.telemetry.probe);
  EXPECT_EQ(history.settings_at(0)->text(&DataConfig::mixture), "");
  history.append(change_marker(0, 5, "telemetry.probe", "", "a -> b # c (for all runs, which read the same batches)"));
  EXPECT_EQ(history.settings_at(5)->value(&TelemetryConfig::probe),
            "a -> b # c (for all runs, which read the same batches)");
}

TEST(ExplainLog, AnImportedLogHasWhatItHas) {
  const auto history =
      import_jsonl(std::string(MOESCOPE_TEST_DATA) + "/../assets/samples/domain_shift.jsonl").runs.front();
  for (const FigureKey& key :
       std::initializer_list<FigureKey>{"ce_loss", "grad_norm", "max_vio", "max_vio_window", "cv", "entropy_norm",
                                        "dead_fraction", "utilisation", "score_entropy", "margin", "max_vio_p90"}) {
    const bool is_run_figure = key == "ce_loss" || key == "grad_norm" || key == "max_vio_p90";
    expect_it_adds_up(
        explain_figure(*history, {.key = key, .layer = is_run_figure ? kWholeRun : 3, .expert = 7, .step = 1000}));
  }
  const Explanation none = explain_figure(*history, {.key = "gate_mass", .layer = 3, .expert = 7, .step = 1000});
  EXPECT_TRUE(none.expression.empty());
  EXPECT_TRUE(explain_figure(*history, {.key = "sqnr_db", .layer = 3, .step = 1000}).expression.empty());
  EXPECT_TRUE(none.knobs.front().value.empty());
}

}  // namespace
}  // namespace moescope
