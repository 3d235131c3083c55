// Number formats of a run: the operands that have them, their effect on the training, and their figures in a frame.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <random>
#include <set>
#include <string>

#include "core/config/config_check.h"
#include "core/config/config_field.h"
#include "core/model/layers/linear.h"
#include "core/model/layers/precision.h"
#include "core/model/learner.h"
#include "core/numerics/number_format.h"
#include "tests/support/trainer_test.h"

namespace moescope {
namespace {

TEST_F(TrainerTest, QuantFramesCoverEveryOperandOfEveryProduct) {
  config_.precision.experts = Recipe::mxfp8_rceil;
  Trainer trainer(config_);
  const TelemetryFrame f = step(trainer);
  ASSERT_EQ(f.quants.size(), 2u * 18u);
  for (const QuantFrame& q : f.quants) {
    const std::string what =
        std::string(gemm_name(q.gemm)) + " " + operand_name(q.operand) + " " + direction_name(q.direction);
    EXPECT_EQ(q.format.name, "mxfp8_e4m3_rceil");
    EXPECT_GT(q.sqnr_db, 20) << what;
    EXPECT_LT(q.sqnr_db, 50) << what;
    EXPECT_EQ(q.clipped, 0) << what;  // RCEIL never clips
    EXPECT_GT(q.amax, 0) << what;
    std::uint64_t blocks = 0;
    for (const std::uint32_t n : q.e8m0_blocks) blocks += n;
    if (q.operand == OperandRole::w) {
      EXPECT_EQ(blocks, 8u * 32u * 32u / 32u) << what;
    } else if (q.direction != Direction::wgrad) {
      EXPECT_EQ(blocks, 160u * 32u / 32u) << what;  // 160 rows of one block
    }
  }
}

// BF16 rounds an operand to the same numbers in every product; MXFP8 does not.
TEST_F(TrainerTest, InBf16TheBackwardPassHasTheFiguresOfTheForwardPass) {
  for (const Recipe recipe : {Recipe::bf16, Recipe::mxfp8_rceil}) {
    for (Recipe* class_recipe :
         {&config_.precision.experts, &config_.precision.dense_ffn, &config_.precision.attention})
      *class_recipe = recipe;
    Trainer trainer(config_);
    const TelemetryFrame f = step(trainer);
    int pairs = 0, equal = 0;
    for (const QuantFrame& q : f.quants)
      for (const QuantFrame& before : f.quants) {
        const bool same_operand = q.layer == before.layer && q.gemm == before.gemm && q.operand == before.operand;
        if (!same_operand || q.direction == Direction::forward || before.direction != Direction::forward) continue;
        EXPECT_EQ(q.amax, before.amax) << gemm_name(q.gemm);
        ++pairs;
        equal += q.sqnr_db == before.sqnr_db;
      }
    EXPECT_GT(pairs, 20);
    EXPECT_EQ(equal == pairs, recipe == Recipe::bf16) << equal << " of " << pairs;
  }
}

TEST_F(TrainerTest, PrecisionMayChange) {
  Trainer exact(config_), rounded(config_);
  rounded.apply(change(&PrecisionConfig::experts, std::string("mxfp8_floor")));
  const TelemetryFrame a = step(exact), b = step(rounded);
  EXPECT_NE(a.ce_loss, b.ce_loss);
  EXPECT_NEAR(a.ce_loss, b.ce_loss, 1e-2);
  EXPECT_FALSE(b.quants.empty());
  rounded.apply(change(&PrecisionConfig::experts, std::string("bf16")));
  for (const QuantFrame& q : step(rounded).quants) EXPECT_EQ(q.format.name, "bf16");
  rounded.apply(change(&PrecisionConfig::experts, std::string("fp32")));
  EXPECT_TRUE(step(rounded).quants.empty());
}

// Each key takes effect at the next step: its loss or gradient norm differs from that of the unchanged run.
TEST_F(TrainerTest, EveryKeyOfPrecisionMayChangeWhileARunTrains) {
  const auto base = [](const std::string& key, PrecisionConfig& precision) {
    precision.experts = key.starts_with("precision.nvfp4") ? Recipe::nvfp4 : Recipe::mxfp4;
    precision.hadamard = key.starts_with("precision.hadamard_");
    precision.rounding = key == "precision.stochastic_operands" ? Rounding::stochastic : Rounding::nearest;
    const bool chooses = key == "precision.nvfp4_four_over_six";
    precision.dense_ffn = key.starts_with("precision.layers_") ? Recipe::mxfp4 : Recipe::fp32;
    precision.bf16_from_step = key == "precision.late_bf16" ? 1 : 0;
    precision.nvfp4_rule = chooses ? Nvfp4Rule::transformer_engine : Nvfp4Rule::divided;
  };
  for (const ConfigField& field : config_fields()) {
    if (!field.key.starts_with("precision.")) continue;
    SCOPED_TRACE(field.key);
    base(field.key, config_.precision);
    Trainer changed(config_), as_it_was(config_);
    step(changed);
    step(as_it_was);
    ConfigValue value = true;
    if (field.get(config_).index() == 1) value = std::int64_t{1};
    if (!field.choices.empty()) value = field.choices.back() == "nvfp4" ? "bf16" : field.choices.back();
    if (!field.choices.empty() && field.choices.size() == kNumRecipes) value = std::string("nvfp4");
    if (field.key == "precision.operands") value = std::string("attention.W=mxfp4");
    changed.apply(change(field, value));
    const TelemetryFrame a = step(changed), b = step(as_it_was);
    EXPECT_TRUE(std::isfinite(a.ce_loss));
    EXPECT_TRUE(a.ce_loss != b.ce_loss || a.grad_norm != b.grad_norm);
    EXPECT_NEAR(a.ce_loss, b.ce_loss, 0.3);
  }
}

RunConfig with(const PrecisionConfig& precision) {
  RunConfig run;
  run.precision = precision;
  return run;
}

TEST(StepPrecision, TurnsToBf16InTheFirstAndLastLayersAndLate) {
  RunConfig run;  // four layers
  run.precision.experts = Recipe::mxfp4;
  run.precision.head = Recipe::mxfp4;
  run.precision.layers_at_start_in_bf16 = 1;
  run.precision.layers_at_end_in_bf16 = 2;
  const auto scheme = [&](GemmClass gemm_class, int layer, std::int64_t step, Direction direction) {
    return step_precision(run, step, layer).class_precision(gemm_class).format(direction, OperandRole::w).scheme;
  };
  using enum Direction;
  for (const int layer : {0, 2, 3}) EXPECT_EQ(scheme(GemmClass::experts, layer, 0, dgrad), QuantScheme::bf16);
  EXPECT_EQ(scheme(GemmClass::experts, 1, 0, dgrad), QuantScheme::mx);
  EXPECT_EQ(scheme(GemmClass::attention, 0, 0, dgrad), QuantScheme::fp32) << "fp32 stays";
  EXPECT_EQ(scheme(GemmClass::head, 3, 0, dgrad), QuantScheme::mx) << "in none of the layers";
  run.precision.bf16_from_step = 10;
  EXPECT_EQ(scheme(GemmClass::experts, 1, 9, forward), QuantScheme::mx);
  EXPECT_EQ(scheme(GemmClass::experts, 1, 10, forward), QuantScheme::bf16);
  EXPECT_EQ(scheme(GemmClass::experts, 1, 10, dgrad), QuantScheme::mx);
  run.precision.late_bf16 = LateBf16::all;
  EXPECT_EQ(scheme(GemmClass::experts, 1, 10, dgrad), QuantScheme::bf16);
  EXPECT_EQ(scheme(GemmClass::head, 1, 10, forward), QuantScheme::bf16);
  EXPECT_EQ(scheme(GemmClass::attention, 1, 10, forward), QuantScheme::fp32);
}

// precision.nvfp4_rule and the keys next to it, with the values of NVIDIA's recipe.
TEST(StepPrecision, HasNvidiasRecipeOfNvfp4) {
  PrecisionConfig config;
  config.experts = Recipe::nvfp4;
  config.attention = Recipe::mxfp8_rceil;
  config.rounding = Rounding::stochastic;
  config.stochastic_operands = StochasticOperands::gradients;
  config.hadamard = true;
  config.hadamard_gemms = RotatedGemms::wgrad;
  config.hadamard_signs = RotationForm::fixed_bf16;
  config.nvfp4_rule = Nvfp4Rule::transformer_engine;
  config.nvfp4_square_weights = true;
  config.nvfp4_four_over_six = FourOverSixChoice::mse_256;
  const StepPrecision precision = step_precision(with(config), 2, 1);
  for (const GemmOperand& at : kGemmOperands) {
    const OperandFormat& format = precision.class_precision(GemmClass::experts).format(at.direction, at.operand);
    EXPECT_EQ(format.nvfp4,
              (Nvfp4Scaling{Nvfp4Rule::transformer_engine, at.operand == OperandRole::w, FourOverSix::mse, 256}));
    EXPECT_EQ(format.rounding, at.operand == OperandRole::dy ? Rounding::stochastic : Rounding::nearest);
    EXPECT_EQ(format.hadamard, at.direction == Direction::wgrad ? 16 : 0);
    EXPECT_EQ(format.rotation, at.direction == Direction::wgrad ? RotationForm::fixed_bf16 : RotationForm::drawn);
    EXPECT_EQ(precision.class_precision(GemmClass::attention).format(at.direction, at.operand).nvfp4, Nvfp4Scaling{});
  }
}

struct ClassCase {
  Recipe PrecisionConfig::*recipe;
  GemmClass gemm_class;
  std::set<std::pair<int, std::string>> weights;  // layer and name of the frames
};

// Three layers: one dense, two MoE.
const std::vector<ClassCase>& class_cases() {
  static const std::vector<ClassCase> cases = {
      {&PrecisionConfig::experts,
       GemmClass::experts,
       {{1, "w1"}, {1, "w2"}, {1, "w3"}, {2, "w1"}, {2, "w2"}, {2, "w3"}}},
      {&PrecisionConfig::shared_experts,
       GemmClass::shared_experts,
       {{1, "w1"}, {1, "w2"}, {1, "w3"}, {2, "w1"}, {2, "w2"}, {2, "w3"}}},
      {&PrecisionConfig::dense_ffn, GemmClass::dense_ffn, {{0, "w1"}, {0, "w2"}, {0, "w3"}}},
      {&PrecisionConfig::attention,
       GemmClass::attention,
       {{0, "wq"},
        {0, "wkv_a"},
        {0, "wkv_b"},
        {0, "wo"},
        {1, "wq"},
        {1, "wkv_a"},
        {1, "wkv_b"},
        {1, "wo"},
        {2, "wq"},
        {2, "wkv_a"},
        {2, "wkv_b"},
        {2, "wo"}}},
      {&PrecisionConfig::router_gate, GemmClass::router_gate, {{1, "gate"}, {2, "gate"}}},
      {&PrecisionConfig::head, GemmClass::head, {{-1, "output"}}},
  };
  return cases;
}

TEST_F(TrainerTest, EveryRecipeTrainsInEveryClassOfWeights) {
  Trainer exact(config_);
  step(exact);
  const float reference = step(exact).ce_loss;
  for (const ClassCase& class_case : class_cases())
    for (const RecipeInfo& info : recipes()) {
      SCOPED_TRACE(std::string(gemm_class_name(class_case.gemm_class)) + " " + info.name);
      RunConfig config = config_;
      config.precision.*class_case.recipe = info.recipe;
      Trainer trainer(config);
      step(trainer);
      const TelemetryFrame f = step(trainer);
      EXPECT_NEAR(f.ce_loss, reference, 0.1);
      std::set<std::pair<int, std::string>> weights;
      for (const QuantFrame& q : f.quants) {
        EXPECT_EQ(q.gemm_class(), class_case.gemm_class);
        weights.emplace(q.layer, gemm_name(q.gemm));
        const OperandFormat format = recipe_format(info.recipe, q.direction, q.operand);
        EXPECT_EQ(q.format.name, format_name(format));
        EXPECT_GT(q.sqnr_db, 8) << gemm_name(q.gemm) << " " << operand_name(q.operand) << " "
                                << direction_name(q.direction);
        EXPECT_GT(q.cosine, 0.9);
        EXPECT_GT(q.amax, 0);
        const bool has_scales = std::ranges::any_of(q.e8m0_blocks, [](std::uint32_t n) { return n > 0; });
        EXPECT_EQ(has_scales, format.scheme != QuantScheme::bf16);
        EXPECT_EQ(is_missing(q.crest), format.scheme == QuantScheme::bf16);
      }
      if (info.recipe == Recipe::fp32) {
        EXPECT_TRUE(weights.empty());
      } else {
        EXPECT_EQ(weights, class_case.weights);
        EXPECT_EQ(f.quants.size(), 6 * weights.size());
      }
    }
}

// w1 and w3 are quantized separately although they are stacked in one product, and each of their values counts once.
TEST_F(TrainerTest, StackedWeightsCountApart) {
  config_.precision.shared_experts = Recipe::mxfp8_rceil;
  Trainer trainer(config_);
  for (const QuantFrame& q : step(trainer).quants) {
    if (q.layer != 1) continue;
    const auto blocks = std::accumulate(q.e8m0_blocks.begin(), q.e8m0_blocks.end(), 0u);
    const std::string what =
        std::string(gemm_name(q.gemm)) + " " + operand_name(q.operand) + " " + direction_name(q.direction);
    const unsigned tokens = q.direction == Direction::wgrad ? 3 : 80;  // 80 tokens are blocks of 32, 32 and 16
    const unsigned across = q.direction == Direction::wgrad ? 32 : 1;
    EXPECT_EQ(blocks, q.operand == OperandRole::w ? 32u : tokens * across) << what;
  }
}

// Operands with an override have its format, all others that of the recipe.
TEST_F(TrainerTest, OverridesReachOneOperandOfEveryQuantizedClass) {
  config_.precision.experts = config_.precision.head = Recipe::mxfp8_rceil;
  config_.precision.override_dy = mx_format(ElementFormat::e5m2);
  config_.precision.override_w = OperandFormat{};
  Trainer trainer(config_);
  const TelemetryFrame f = step(trainer);
  EXPECT_EQ(f.quants.size(), 2u * 12 + 4);
  for (const QuantFrame& q : f.quants) {
    EXPECT_NE(q.operand, OperandRole::w);
    EXPECT_EQ(q.format.name, q.operand == OperandRole::dy ? "mxfp8_e5m2_rceil" : "mxfp8_e4m3_rceil");
  }
}

// A recipe for one operand of one class, also of a class that is FP32 otherwise. It takes precedence over overrides.
TEST_F(TrainerTest, RecipesOfSingleOperandsReachThatOperandAlone) {
  config_.precision.experts = Recipe::mxfp8_rceil;
  config_.precision.override_w = kBf16Format;
  config_.precision.operands = "experts.dY=mxfp8_e5m2_grad, experts.W=mxfp6_e2m3, router_gate.x = mxfp4";
  ASSERT_TRUE(validate(config_).empty());
  Trainer trainer(config_);
  const TelemetryFrame f = step(trainer);
  EXPECT_EQ(f.quants.size(), 2u * 18 + 2 * 2) << "the gate has x in forward and wgrad";
  for (const QuantFrame& q : f.quants) {
    const char* expected = "mxfp8_e4m3_rceil";
    if (q.operand == OperandRole::dy) expected = "mxfp8_e5m2_rceil";
    if (q.operand == OperandRole::w) expected = "mxfp6_e2m3_rceil";
    if (q.gemm_class() == GemmClass::router_gate) expected = "mxfp4_e2m1_rceil";
    EXPECT_EQ(q.format.name, expected) << gemm_name(q.gemm) << operand_name(q.operand);
    EXPECT_TRUE(q.gemm_class() == GemmClass::experts ||
                (q.gemm_class() == GemmClass::router_gate && q.operand == OperandRole::x));
  }
}

// With a recipe for one GEMM of one layer, nothing else of a forward and a backward pass changes by a bit.
TEST_F(TrainerTest, RecipesOfSingleGemmsAndLayersReachThatGemmAlone) {
  const Batch batch = data_->batch(0);
  const auto pass = [&](const char* operands, std::vector<float>& gradients) {
    RunConfig config = config_;
    config.precision.operands = operands;
    EXPECT_TRUE(validate(config).empty()) << operands;
    Learner<float> learner(config);
    PhaseClock clock;
    const double loss = learner.forward(batch, false, clock).ce;
    learner.backward(batch, clock);
    gradients.assign(learner.parameters.gradients.begin(), learner.parameters.gradients.end());
    return loss;
  };
  std::vector<float> exact, rounded;
  const double loss = pass("", exact);
  EXPECT_EQ(pass("2:experts.dY.wgrad=mxfp4", rounded), loss);
  const Learner<float> shapes(config_);
  int changed = 0;
  for (const ParameterTensor& tensor : shapes.parameters.tensors()) {
    bool unchanged = true;
    for (std::size_t b = 0; b < tensor.blocks(); ++b) {
      const auto at = static_cast<std::ptrdiff_t>(tensor.offset + b * tensor.outer_stride);
      const auto size = static_cast<std::ptrdiff_t>(tensor.block_elements());
      unchanged = unchanged && std::equal(exact.begin() + at, exact.begin() + at + size, rounded.begin() + at);
    }
    EXPECT_EQ(unchanged, !tensor.name.starts_with("layers.2.moe.experts")) << tensor.name;
    changed += !unchanged;
  }
  EXPECT_GT(changed, 0);
  EXPECT_EQ(pass("1:experts.W.dgrad=mxfp4", rounded), loss) << "the backward pass alone";
  EXPECT_NE(rounded, exact);
  EXPECT_NE(pass("1:experts.W.forward=mxfp4", rounded), loss);

  config_.precision.operands = "1:attention.x.forward=mxfp8_rceil, head.dY=bf16";
  Trainer trainer(config_);
  for (const QuantFrame& q : step(trainer).quants)
    EXPECT_TRUE(q.layer == 1 ? q.direction == Direction::forward && q.operand == OperandRole::x
                             : q.layer == -1 && q.operand == OperandRole::dy)
        << place_text(q);
}

// An entry sets the rounding of one operand and the rotation of both operands of its GEMM, whatever the other keys say.
TEST(Precision, EntriesHaveRoundingAndRotationOfTheirOwn) {
  RunConfig run;
  run.precision.experts = Recipe::bf16;
  run.precision.operands =
      "experts.dY.wgrad=mxfp4+stochastic+rotated, experts.x.wgrad=mxfp4, experts.x.forward=nvfp4+rotated";
  const auto format_of = [&](Direction direction, OperandRole operand) {
    return step_precision(run, 1, 1).class_precision(GemmClass::experts).format(direction, operand);
  };
  EXPECT_EQ(format_of(Direction::wgrad, OperandRole::dy).rounding, Rounding::stochastic);
  EXPECT_EQ(format_of(Direction::wgrad, OperandRole::x).rounding, Rounding::nearest);
  EXPECT_EQ(format_of(Direction::wgrad, OperandRole::dy).hadamard, 32);
  EXPECT_EQ(format_of(Direction::wgrad, OperandRole::x).hadamard, 32);
  EXPECT_EQ(format_of(Direction::forward, OperandRole::x).hadamard, 16) << "a block of NVFP4";
  EXPECT_EQ(format_of(Direction::forward, OperandRole::w).hadamard, 16);
  EXPECT_EQ(format_of(Direction::dgrad, OperandRole::dy).hadamard, 0);
  run.precision.rounding = Rounding::stochastic;
  run.precision.hadamard = true;
  run.precision.operands = "experts.dY.wgrad=mxfp4+nearest+unrotated, experts.x.wgrad=mxfp4";
  EXPECT_EQ(format_of(Direction::wgrad, OperandRole::dy).rounding, Rounding::nearest);
  EXPECT_EQ(format_of(Direction::wgrad, OperandRole::x).rounding, Rounding::stochastic);
  EXPECT_EQ(format_of(Direction::wgrad, OperandRole::x).hadamard, 0);
}

TEST_F(TrainerTest, RotationsCancelInTheProducts) {
  PrecisionConfig& p = config_.precision;
  p.experts = p.shared_experts = p.dense_ffn = p.attention = p.router_gate = p.head = Recipe::mxfp8_rceil;
  StepPrecision rotated = step_precision(with(p), 1, 1);
  p.experts = p.shared_experts = p.dense_ffn = p.attention = p.router_gate = p.head = Recipe::fp32;
  p.hadamard = true;
  EXPECT_TRUE(step_precision(with(p), 1, 1).plain) << "fp32 stays as it is";
  // A linear layer with FP32 operands that are rotated: without quantization, a rotation of both operands changes their
  // product by rounding alone.
  for (ClassPrecision& formats : rotated.classes)
    for (OperandFormat& format : formats.formats) {
      format = {};
      format.hadamard = 32;
    }
  constexpr int kRows = 150, kIn = 80, kOut = 96;
  std::vector<float> x(kRows * kIn), w(kOut * kIn), dy(kRows * kOut);
  std::mt19937 rng(1);
  std::normal_distribution<float> normal;
  for (auto* values : {&x, &w, &dy})
    for (float& v : *values) v = normal(rng);
  for (const int stacked : {1, 2}) {
    const LayerPrecision layer{&rotated, 0, nullptr};
    const LinearPrecision precision = layer.linear_precision(Gemm::dense_w1, stacked);
    std::vector<float> y[2], dx[2], dw[2];
    for (int i = 0; i < 2; ++i) {
      const LinearPrecision chosen = i ? precision : LinearPrecision{};
      y[i].resize(kRows * kOut);
      dx[i].resize(kRows * kIn);
      dw[i].resize(kOut * kIn);
      linear_forward<float>({x.data(), kRows, kIn}, {w.data(), kOut, kIn}, {y[i].data(), kRows, kOut}, false, chosen);
      linear_backward<float>({dy.data(), kRows, kOut}, {x.data(), kRows, kIn}, {w.data(), kOut, kIn},
                             {dw[i].data(), kOut, kIn}, {dx[i].data(), kRows, kIn}, false, chosen);
    }
    for (const auto* product : {y, dx, dw})
      for (std::size_t i = 0; i < product[0].size(); ++i) ASSERT_NEAR(product[0][i], product[1][i], 1e-4);
    EXPECT_NE(y[0], y[1]) << "it was rotated";
  }
}

// Returns the gradient of a weight in the first step.
std::vector<float> first_gradient(const RunConfig& config, const char* weight) {
  const auto data = open_dataset(config.data, config.seed);
  Learner<float> learner(config);
  PhaseClock clock;
  learner.forward(data->batch(0), false, clock);
  learner.backward(data->batch(0), clock);
  return learner.parameters.gather(learner.parameters.tensor(weight), learner.parameters.gradients);
}

// An expert with more rows than are added at a time: the formats of dgrad's operands, and the rows that share one of
// their scales, change nothing in the gradient of its weights. This is tested in FP32, because matrix units add in one
// order anyway.
TEST_F(TrainerTest, DgradsFormatsLeaveWgradAsItIs) {
  config_.precision.experts = Recipe::mxfp8_rceil;
  config_.data.batch = 128;
  ASSERT_GT(config_.data.batch * config_.data.seq * config_.router.top_k / config_.model.n_experts, 512);
  config_.precision.operands = "experts.dY.wgrad=fp32, experts.x.wgrad=fp32";
  RunConfig other = config_;
  other.precision.operands += ", experts.dY.dgrad=nvfp4, experts.W.dgrad=nvfp4";
  const char* weight = "layers.2.moe.experts.w2";
  EXPECT_TRUE(first_gradient(config_, weight) == first_gradient(other, weight));
}

TEST_F(TrainerTest, PayloadRoundsDispatchedRows) {
  // The experts of a new model add too little for a difference in the loss, but their gradients differ.
  std::vector<float> gradient[3];
  for (int i = 0; i < 3; ++i) {
    config_.precision.payload = static_cast<TokenPayload>(i);
    gradient[i] = first_gradient(config_, "layers.2.moe.experts.w1");
  }
  const auto error = [&](int i) {
    double difference = 0, length = 0;
    for (std::size_t k = 0; k < gradient[0].size(); ++k) {
      difference += std::pow(double{gradient[i][k]} - gradient[0][k], 2);
      length += std::pow(double{gradient[0][k]}, 2);
    }
    return std::sqrt(difference / length);
  };
  // Two independent rounding errors, of x and of dY: BF16's are at most 2^-9 / sqrt(3), E4M3's 2^-4 / sqrt(3).
  EXPECT_GT(error(1), 1e-4);
  EXPECT_LT(error(1), 4e-3);
  EXPECT_GT(error(2), 1e-2);
  EXPECT_LT(error(2), 8e-2);
}

}  // namespace
}  // namespace moescope
