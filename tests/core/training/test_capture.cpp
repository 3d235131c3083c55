// Operands captured from a training step: their values, and that a capture changes nothing in the training.
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <thread>

#include "core/config/config_check.h"
#include "core/config/config_field.h"
#include "core/files/tensors/safetensors.h"
#include "core/model/layers/operand_tap.h"
#include "core/training/engine/live_runs.h"
#include "tests/support/live_steps.h"

namespace moescope {
namespace {

using namespace std::chrono_literals;

RunConfig tiny(const char* name = "tiny") {
  RunConfig c;
  c.name = name;
  c.model.dim = 64;
  c.model.n_layers = 3;
  c.model.dense_inter = 96;
  c.model.n_heads = 2;
  c.model.kv_lora_rank = 32;
  c.model.qk_nope_head_dim = 16;
  c.model.qk_rope_head_dim = 16;
  c.model.v_head_dim = 16;
  c.model.n_experts = 8;
  c.model.moe_inter = 32;
  c.optimizer.warmup_steps = 2;
  c.data.batch = 2;
  c.data.seq = 40;
  c.telemetry.quant_every = 3;
  return c;
}

void set(RunConfig& config, const char* key, const char* value) {
  const ConfigField* field = find_field(key);
  ASSERT_TRUE(field) << key;
  field->set(config, parse_value(*field, value));
}

RunConfig quantized(const char* recipe) {
  RunConfig config = tiny();
  for (const char* key : {"precision.experts", "precision.shared_experts", "precision.dense_ffn", "precision.attention",
                          "precision.router_gate", "precision.head"})
    set(config, key, recipe);
  return config;
}

bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

void expect_figures(const QuantSums& sums, const QuantFrame& frame, const std::string& what) {
  EXPECT_EQ(sums.e8m0_blocks, frame.e8m0_blocks) << what;
  EXPECT_TRUE(same_bits(sums.amax, frame.amax)) << what;
  EXPECT_TRUE(same_bits(static_cast<float>(sums.sqnr_db()), frame.sqnr_db)) << what;
  EXPECT_TRUE(same_bits(static_cast<float>(sums.relative_l2()), frame.relative_l2)) << what;
  EXPECT_TRUE(same_bits(static_cast<float>(sums.cosine()), frame.cosine)) << what;
  EXPECT_TRUE(same_bits(static_cast<float>(sums.underflow_share()), frame.underflow)) << what;
  EXPECT_TRUE(same_bits(static_cast<float>(sums.clipped_share()), frame.clipped)) << what;
  if (sums.blocks == 0) return;
  EXPECT_TRUE(same_bits(static_cast<float>(sums.clipped_blocks_share()), frame.clipped_blocks)) << what;
  EXPECT_TRUE(same_bits(static_cast<float>(sums.mean_crest()), frame.crest)) << what;
}

// A trainer with its data.
struct Course {
  explicit Course(const RunConfig& config) : trainer(config), data(open_dataset(config.data, config.seed)) {}
  Batch next() const { return data->batch(trainer.steps_taken()); }
  TelemetryFrame step(OperandTap* tap = nullptr) { return trainer.step(next(), tap); }
  CapturedOperand ahead(const OperandPlace& place) {
    OperandTap tap(place);
    trainer.compute_ahead(next(), tap);
    return tap.finish(trainer.config().model.n_experts).value();
  }
  Trainer trainer;
  std::unique_ptr<Dataset> data;
};

class EveryOperand : public testing::TestWithParam<RunConfig> {};

// For each operand of every GEMM: the captured values, quantized again, have exactly the figures of the step's frame.
TEST_P(EveryOperand, QuantizedAgainHasTheFiguresOfTheStep) {
  ASSERT_TRUE(validate(GetParam()).empty()) << validate(GetParam()).front().text();
  Course course(GetParam());
  const TelemetryFrame first = course.step();
  ASSERT_FALSE(first.quants.empty());
  for (const QuantFrame& expected : first.quants) {
    const OperandPlace place = expected;
    OperandTap tap(place);
    const TelemetryFrame frame = course.step(&tap);
    const auto found =
        std::find_if(frame.quants.begin(), frame.quants.end(), [&](const QuantFrame& q) { return place == q; });
    ASSERT_NE(found, frame.quants.end()) << place_text(place);
    const auto captured = tap.finish(course.trainer.config().model.n_experts);
    ASSERT_TRUE(captured) << place_text(place);
    EXPECT_EQ(captured->values.size(), captured->rows * captured->cols);
    expect_figures(quantizer_sums(*captured), *found, place_text(place));

    if (captured->format.hadamard > 0) {
      const CapturedOperand turned = rotated(*captured);
      EXPECT_EQ(turned.format.hadamard, 0);
      EXPECT_NE(turned.values, captured->values);
      expect_figures(quantizer_sums(turned), *found, "rotated " + place_text(place));
    }
  }
}

RunConfig with(RunConfig config, std::initializer_list<std::pair<const char*, const char*>> settings) {
  for (const auto& [key, value] : settings) set(config, key, value);
  return config;
}

INSTANTIATE_TEST_SUITE_P(
    Recipes, EveryOperand,
    testing::Values(with(quantized("mxfp8_rceil"), {{"precision.payload", "mxfp8"}}), quantized("fp8_tensorwise"),
                    quantized("fp8_rowwise"), quantized("fp8_deepseek_128"),
                    with(quantized("bf16"), {{"precision.payload", "bf16"}}),
                    with(quantized("nvfp4"), {{"precision.rounding", "stochastic"}, {"precision.hadamard", "true"}}),
                    with(quantized("mxfp4"), {{"precision.rounding", "stochastic"}, {"precision.hadamard", "true"}})),
    [](const auto& info) { return std::to_string(info.index); });

TEST(Capture, TheSameTensorIsTheSameWhereverItIsQuantized) {
  Course course(quantized("mxfp8_rceil"));
  for (int i = 0; i < 3; ++i) course.step();
  const auto values = [&](OperandPlace place) { return course.ahead(place).values; };
  const OperandPlace x{2, Gemm::expert_w1, OperandRole::x, Direction::forward};
  OperandPlace other = x;
  other.gemm = Gemm::expert_w3;
  EXPECT_EQ(values(x), values(other));
  other.direction = Direction::wgrad;
  EXPECT_EQ(values(x), values(other));
  const OperandPlace w{2, Gemm::expert_w2, OperandRole::w, Direction::forward};
  other = w;
  other.direction = Direction::dgrad;
  EXPECT_EQ(values(w), values(other));
  const CapturedOperand forward = course.ahead(w), backward = course.ahead(other);
  EXPECT_EQ(forward.axis, BlockAxis::row);
  EXPECT_EQ(backward.axis, BlockAxis::column);
  EXPECT_EQ(forward.rows, 8u * 64);
  EXPECT_EQ(forward.cols, 32u);
}

TEST(Capture, FullPrecisionCanBeLookedAt) {
  Course course(tiny());
  course.trainer.apply({0, &PrecisionConfig::experts, ConfigValue(std::string("fp32"))});
  const CapturedOperand x = course.ahead({1, Gemm::expert_w1, OperandRole::x, Direction::forward});
  EXPECT_EQ(x.format.scheme, QuantScheme::fp32);
  EXPECT_EQ(x.rows, 2u * 40 * course.trainer.config().router.top_k);
  const CapturedOperand w = course.ahead({-1, Gemm::output, OperandRole::w, Direction::forward});
  EXPECT_EQ(w.rows, 256u);
  EXPECT_EQ(w.cols, 64u);
}

TEST(Capture, TrainingDoesNotNotice) {
  Course plain(quantized("mxfp8_rceil")), watched(quantized("mxfp8_rceil"));
  const std::vector<OperandPlace> places = {{1, Gemm::expert_w1, OperandRole::x, Direction::forward},
                                            {2, Gemm::expert_w3, OperandRole::dy, Direction::wgrad},
                                            {0, Gemm::wkv_b, OperandRole::w, Direction::dgrad},
                                            {-1, Gemm::output, OperandRole::dy, Direction::dgrad}};
  for (int i = 0; i < 8; ++i) {
    const OperandPlace place = places[static_cast<std::size_t>(i) % places.size()];
    const CapturedOperand ahead = watched.ahead(place);
    OperandTap tap(place);
    const TelemetryFrame watched_frame = watched.step(&tap), plain_frame = plain.step();
    EXPECT_TRUE(same_bits(plain_frame.ce_loss, watched_frame.ce_loss)) << i;
    EXPECT_TRUE(same_bits(plain_frame.grad_norm, watched_frame.grad_norm)) << i;
    const auto along = tap.finish(8);
    EXPECT_EQ(ahead.values, along->values) << place_text(place);  // the operand computed ahead is that of the step
    EXPECT_EQ(ahead.expert_rows, along->expert_rows);
  }
}

TEST(Capture, SavedTensorsReadBack) {
  Course course(quantized("mxfp8_rceil"));
  const CapturedOperand x = course.ahead({1, Gemm::expert_w1, OperandRole::x, Direction::forward});
  const std::string path = testing::TempDir() + "/capture_" + std::to_string(::getpid()) + ".safetensors";
  save_captured(x, path);
  const SafetensorsFile file(path);
  const TensorView& tensor = file.at(place_text(x.place));
  EXPECT_EQ(tensor.shape, (std::vector<std::size_t>{x.rows, x.cols}));
  EXPECT_EQ(tensor.floats(), x.values);
  EXPECT_EQ(file.at("expert_rows").integers().back(), static_cast<std::int64_t>(x.rows));
  EXPECT_EQ(file.metadata().at("direction"), "forward");
  std::filesystem::remove(path);
  EXPECT_THROW(save_captured(x, "/nowhere/x.safetensors"), std::runtime_error);
}

const OperandPlace kX{1, Gemm::expert_w1, OperandRole::x, Direction::forward};

Capture::State outcome(const std::shared_ptr<const Capture>& capture) {
  eventually([&] { return capture->state() != Capture::State::waiting; });
  return capture->state();
}

TEST(LiveCapture, RidesAlongWithARunningStep) {
  LiveRuns live({quantized("mxfp8_rceil")}, "");
  live.run();
  ASSERT_TRUE(eventually([&] { return live.status().step > 2; }));
  const auto capture = live.capture(0, kX);
  ASSERT_EQ(outcome(capture), Capture::State::ready) << capture->error();
  live.pause();
  live.flush();
  const CapturedOperand& x = *capture->operand();
  EXPECT_FALSE(x.ahead);
  EXPECT_EQ(x.run_name, "tiny");
  const auto frame = live.histories()[0]->quant_frame_at(x.step);
  ASSERT_EQ(frame->step, x.step);  // at any cadence of the figures
  for (const QuantFrame& quant : frame->quants)
    if (kX == quant) expect_figures(quantizer_sums(x), quant, "x");
}

TEST(LiveCapture, PausedItIsComputedAheadAndNoStepIsTaken) {
  LiveRuns live({quantized("mxfp8_rceil")}, "");
  run_to(live, 4);
  const auto paused = live.capture(0, kX);
  ASSERT_EQ(outcome(paused), Capture::State::ready) << paused->error();
  EXPECT_TRUE(paused->operand()->ahead);
  EXPECT_EQ(paused->operand()->step, 4);
  EXPECT_EQ(live.status().step, 4);
  run_to(live, 8);

  LiveRuns unwatched({quantized("mxfp8_rceil")}, "");
  run_to(unwatched, 8);
  for (std::int64_t step = 0; step < 8; ++step)
    EXPECT_TRUE(same_bits(live.histories()[0]->value_at(Metric::ce_loss, kWholeRun, step),
                          unwatched.histories()[0]->value_at(Metric::ce_loss, kWholeRun, step)));
}

TEST(LiveCapture, PausingUnderASlowSpeedLimitDoesNotStrandIt) {
  LiveRuns live({tiny()}, "");
  live.set_max_steps_per_s(0.001);
  live.run();
  ASSERT_TRUE(eventually([&] { return live.status().step == 1; }));
  const auto capture = live.capture(0, kX);
  live.pause();
  EXPECT_EQ(outcome(capture), Capture::State::ready) << capture->error();
}

TEST(LiveCapture, SeveralAtOnceAndOfSeveralRuns) {
  LiveRuns live({quantized("mxfp8_rceil"), quantized("mxfp4")}, "");
  live.run();
  const std::vector<std::shared_ptr<const Capture>> captures = {live.capture(0, kX), live.capture(1, kX),
                                                                live.capture(1, kX)};
  for (const auto& capture : captures) ASSERT_EQ(outcome(capture), Capture::State::ready) << capture->error();
  EXPECT_EQ(captures[0]->operand()->format.element, ElementFormat::e4m3);
  EXPECT_EQ(captures[1]->operand()->format.element, ElementFormat::e2m1);
  EXPECT_EQ(captures[2]->operand()->run, 1);
}

TEST(LiveCapture, RefusalNamesReason) {
  auto live = std::make_unique<LiveRuns>(std::vector<RunConfig>{tiny("a"), tiny("b")}, "");
  EXPECT_THROW(live->capture(7, kX), std::invalid_argument);
  for (const OperandPlace& nowhere : {OperandPlace{99, Gemm::expert_w1, OperandRole::x, Direction::forward},
                                      OperandPlace{1, Gemm::wq_b, OperandRole::w, Direction::forward},
                                      OperandPlace{1, Gemm::expert_w1, OperandRole::dy, Direction::forward}}) {
    const auto capture = live->capture(0, nowhere);
    ASSERT_EQ(outcome(capture), Capture::State::failed);
    EXPECT_NE(capture->error().find("has no"), std::string::npos) << capture->error();
  }
  live->remove_run(1);
  EXPECT_THROW(live->capture(1, kX), std::invalid_argument);
  const auto last = live->capture(0, kX);
  live.reset();
  EXPECT_NE(last->state(), Capture::State::waiting);
}

TEST(LiveCapture, ARunThatIsRemovedMeanwhileFailsItsCaptures) {
  LiveRuns live({tiny("a"), tiny("b")}, "");
  live.set_max_steps_per_s(0.001);
  live.run();
  ASSERT_TRUE(eventually([&] { return live.status().step == 1; }));
  const auto capture = live.capture(1, kX);
  live.flush();
  EXPECT_EQ(capture->state(), Capture::State::waiting);  // for a step that is a quarter of an hour away
  live.remove_run(1);
  ASSERT_EQ(outcome(capture), Capture::State::failed);
  EXPECT_NE(capture->error().find("removed"), std::string::npos);
}

}  // namespace
}  // namespace moescope
