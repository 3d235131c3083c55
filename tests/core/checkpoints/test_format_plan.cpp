// A number format for each group of weights within a budget, and the plan as configs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <regex>

#include "core/checkpoints/ablation/format_plan.h"
#include "core/config/config_toml.h"
#include "core/model/layers/precision.h"
#include "tests/support/kept_logits.h"
#include "tests/support/problem_of.h"
#include "tests/support/small_checkpoint.h"

namespace moescope {
namespace {

using Json = nlohmann::json;

constexpr ComparedTexts kEightPieces{.length = 16, .pieces = 8};

const std::vector<LabelledText>& two_texts() {
  static const std::vector<LabelledText> texts = {{"a", SmallCheckpoint::some_ids(64)},
                                                  {"b", SmallCheckpoint::some_ids(90)}};
  return texts;
}

FormatPlan plan_of(CheckpointModel& model, const PlanRequest& request) {
  return plan_formats(model, two_texts(), kEightPieces, request, [](int done, int total) { return done <= total; });
}

// Loss change and divergence of the groups' formats on the pieces for which `counts` holds.
PieceFigures figures_of(CheckpointModel& model, const std::vector<WeightGroup>& groups,
                        bool (*counts)(std::size_t, std::size_t)) {
  PieceFigures figures;
  const std::vector<TextPiece> pieces = pieces_of(two_texts(), kEightPieces);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (!counts(i, pieces.size())) continue;
    model.round_nothing();
    const Predictions exact = predict(model, pieces[i].ids);
    round_weights(model, groups);
    figures.add(exact, predict(model, pieces[i].ids));
  }
  model.round_nothing();
  return figures;
}

TEST(FormatPlan, AnExpertsRoundingChangesItsTokensAlone) {
  const SmallCheckpoint folder("one_expert");
  CheckpointModel model(folder.path());
  const std::vector<std::int32_t> ids = SmallCheckpoint::some_ids(40);
  const Predictions before = predict(model, ids);
  const auto last = static_cast<int>(model.layers().size()) - 1;
  model.set_expert_rounding(last, 1, {.w = recipe_format(Recipe::mxfp4, Direction::forward, OperandRole::w)});
  const Predictions after = predict(model, ids);
  const std::vector<std::int32_t>& experts = before.experts.back();
  const std::size_t vocabulary = SmallCheckpoint::kVocab;
  for (std::size_t t = 0; t + 1 < ids.size(); ++t) {
    const bool uses = experts[2 * t] == 1 || experts[2 * t + 1] == 1;
    const auto row = [&](const Predictions& found) {
      return std::span(found.log_p).subspan(t * vocabulary, vocabulary);
    };
    EXPECT_EQ(std::ranges::equal(row(before), row(after)), !uses) << t;
  }
}

TEST(FormatPlan, StaysWithinTheBudgetAndLeavesNothingRounded) {
  const SmallCheckpoint folder("budget");
  CheckpointModel model(folder.path());
  const std::vector<float> before = predict(model, two_texts()[0].ids).log_p;
  double divergence = INFINITY;
  for (const double bits : {4.25, 4.6, 6.0, 9.0, 16.0}) {
    const FormatPlan plan = plan_of(model, {.bits = bits});
    ASSERT_EQ(plan.groups.size(), SmallCheckpoint::kLayers * (2 + SmallCheckpoint::kExperts) + 1);
    EXPECT_LE(plan.bits, bits * (1 + 1e-9));
    EXPECT_NEAR(plan.bits, bits_per_weight(plan.groups), 1e-9);
    EXPECT_EQ(plan.pieces, 4);
    EXPECT_EQ(plan.uniform.size(), 4u);
    EXPECT_LE(plan.ranking_divergence.mean, 1.05 * divergence) << "more bits cost nothing";
    divergence = plan.ranking_divergence.mean;
    const PieceFigures judged = figures_of(model, plan.groups, measures);
    EXPECT_NEAR(plan.effect.loss_change.mean, figure_of_pieces(judged.loss_change).mean, 1e-9);
    EXPECT_NEAR(plan.effect.divergence.mean, figure_of_pieces(judged.divergence).mean, 1e-9);
  }
  const FormatPlan all = plan_of(model, {.bits = 16});
  EXPECT_TRUE(std::ranges::all_of(all.groups, [](const WeightGroup& g) { return g.format == Recipe::bf16; }));
  EXPECT_EQ(predict(model, two_texts()[0].ids).log_p, before);
}

// Tries all 256 ways to give the eight experts one of two formats.
TEST(FormatPlan, IsAsGoodAsTheBestOfAllAssignments) {
  const SmallCheckpoint folder("exhaustive");
  CheckpointModel model(folder.path());
  PlanRequest request{.bits = 0,
                      .kept_classes = {GemmClass::attention, GemmClass::router_gate, GemmClass::head},
                      .formats = {Recipe::mxfp4, Recipe::mxfp8_rceil}};
  for (const double bits : {6.0, 6.8, 7.5}) {
    request.bits = bits;
    const FormatPlan plan = plan_of(model, request);
    std::vector<WeightGroup> groups = plan.groups, best;
    std::vector<WeightGroup*> experts;
    for (WeightGroup& group : groups)
      if (group.gemm_class == GemmClass::experts) experts.push_back(&group);
    ASSERT_EQ(experts.size(), 8u);
    double smallest = INFINITY;
    for (unsigned choice = 0; choice < 256; ++choice) {
      for (std::size_t e = 0; e < experts.size(); ++e)
        experts[e]->format = choice >> e & 1 ? Recipe::mxfp8_rceil : Recipe::mxfp4;
      if (bits_per_weight(groups) > bits) continue;
      const double divergence = figure_of_pieces(figures_of(model, groups, ranks).divergence).mean;
      if (divergence < smallest) best = groups;
      smallest = std::min(smallest, divergence);
    }
    EXPECT_LE(plan.ranking_divergence.mean, smallest * 1.1 + plan.ranking_divergence.interval) << bits;
    std::vector<double> behind = figures_of(model, plan.groups, measures).loss_change;
    const std::vector<double> best_changes = figures_of(model, best, measures).loss_change;
    for (std::size_t i = 0; i < behind.size(); ++i) behind[i] -= best_changes[i];
    const FigureOfPieces difference = figure_of_pieces(behind);
    EXPECT_LE(difference.mean, difference.interval) << bits;
  }
}

TEST(FormatPlan, KeptClassesStayInTheLastFormat) {
  const SmallCheckpoint folder("kept");
  CheckpointModel model(folder.path());
  const FormatPlan plan = plan_of(model, {.bits = 8, .kept_classes = {GemmClass::attention, GemmClass::router_gate}});
  for (const WeightGroup& group : plan.groups)
    if (group.gemm_class == GemmClass::attention || group.gemm_class == GemmClass::router_gate) {
      EXPECT_EQ(group.format, Recipe::bf16);
    }
  EXPECT_EQ(problem_of([&] {
              plan_of(model, {.bits = 4.5, .kept_classes = {GemmClass::experts}});
            }).find("4.5 bits per weight are too few: the smallest plan has 1"),
            0u);
}

TEST(FormatPlan, RefusesWhatItCannotMeasure) {
  const SmallCheckpoint folder("refused");
  CheckpointModel model(folder.path());
  EXPECT_EQ(problem_of([&] { plan_of(model, {.bits = 4}); }),
            "4 bits per weight are too few: the smallest plan has 4.25, mxfp4 in all weights");
  EXPECT_NE(problem_of([&] {
              plan_formats(model, {{"a", {1}}}, kEightPieces, {.bits = 5}, [](int, int) { return true; });
            }),
            "");
  const FormatPlan stopped =
      plan_formats(model, two_texts(), kEightPieces, {.bits = 5}, [](int done, int) { return done < 5; });
  EXPECT_TRUE(stopped.groups.empty());
  {
    std::fstream file(folder.file("model.safetensors"), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-4, std::ios::end);  // the last gain of the last norm
    const float nan = NAN;
    file.write(reinterpret_cast<const char*>(&nan), sizeof nan);
  }
  CheckpointModel broken(folder.path());
  EXPECT_EQ(problem_of([&] { plan_of(broken, {.bits = 5}); }),
            "the loss of 'a' in FP32 is not finite, so that no format can be compared with it");
}

TEST(FormatPlan, CodesAreRefused) {
  const SmallCheckpoint folder("codes");
  SafetensorsWriter writer;
  const SafetensorsFile file(folder.file("model.safetensors"));
  const std::vector<std::byte> codes(SmallCheckpoint::kVocab * SmallCheckpoint::kDim, std::byte{0x38});  // 1 in E4M3
  for (const TensorView& tensor : file.tensors()) {
    const bool head = tensor.name == "lm_head.weight";
    writer.add(tensor.name, head ? DType::f8_e4m3 : tensor.dtype, tensor.shape, head ? codes : tensor.bytes);
  }
  writer.write(folder.file("codes.safetensors"));
  std::filesystem::rename(folder.file("codes.safetensors"), folder.file("model.safetensors"));
  CheckpointModel model(folder.path());
  EXPECT_EQ(problem_of([&] { plan_of(model, {.bits = 8}); }),
            "'lm_head.weight' is quantized already (F8_E4M3): make the plan from the checkpoint in BF16 or F32");
}

// Each module is named by the pattern of its format and by no other, and the training has the same formats.
TEST(FormatPlan, ConfigsNameEachModuleOnce) {
  const SmallCheckpoint folder("configs");
  CheckpointModel model(folder.path());
  const FormatPlan plan = plan_of(model, {.bits = 6});
  const Json json = Json::parse(plan_json(plan));
  std::vector<std::pair<std::string, std::string>> patterns;  // format, pattern
  for (const auto& [format, group] : json["compressed_tensors"]["config_groups"].items())
    for (const Json& target : group["targets"]) patterns.emplace_back(format, target.get<std::string>());
  for (const Json& target : json["compressed_tensors"]["ignore"])
    patterns.emplace_back("bf16", target.get<std::string>());
  const Json& by_name = json["torchao"]["quant_type"]["default"]["_data"]["fqn_to_config"];
  EXPECT_EQ(by_name.size(), patterns.size());
  const std::string modelopt = json["modelopt"];
  std::size_t modules = 0;
  for (const WeightGroup& group : plan.groups)
    for (const std::string& module : group.modules) {
      ++modules;
      std::vector<std::string> formats;
      for (const auto& [format, pattern] : patterns) {
        const bool matches =
            pattern.starts_with("re:") ? std::regex_match(module, std::regex(pattern.substr(3))) : pattern == module;
        if (!matches) continue;
        formats.push_back(format);
        EXPECT_EQ(by_name.at(pattern).is_null(), format == "bf16");
      }
      EXPECT_EQ(formats, std::vector<std::string>{recipe_info(group.format).name}) << module;
      EXPECT_EQ(modelopt.find("'" + module + ".weight_quantizer'") != std::string::npos, group.format != Recipe::bf16);
    }
  EXPECT_EQ(modules, SmallCheckpoint::kLayers * (4 + 1 + 3 * SmallCheckpoint::kExperts) + 1);
  const ParsedConfig parsed = parse_config(json["moescope"].get<std::string>(), "plan");
  ASSERT_TRUE(parsed.problems.empty()) << parsed.problems[0].message;
  for (const WeightGroup& group : plan.groups) {
    if (group.gemm_class == GemmClass::experts) continue;
    const StepPrecision step = step_precision(parsed.config, 0, std::max(group.layer, 0));
    EXPECT_EQ(step.class_precision(group.gemm_class).format(Direction::forward, OperandRole::w),
              recipe_format(group.format, Direction::forward, OperandRole::w))
        << group.modules[0];
  }
}

TEST(FormatPlan, WeightsThatShareATensorGetOneFormat) {
  const SmallCheckpoint folder("shared_tensors");
  folder.write_config({{"tie_word_embeddings", true}});
  folder.write_tensors([](SmallCheckpoint::Tensors& tensors) {
    tensors.erase("lm_head.weight");
    for (std::size_t layer = 0; layer < SmallCheckpoint::kLayers; ++layer) {
      const std::string at = "model.layers." + std::to_string(layer) + ".mlp.";
      std::erase_if(tensors, [&](const auto& entry) {
        return entry.first.find("layers." + std::to_string(layer) + ".block_sparse_moe.") != std::string::npos;
      });
      tensors[at + "gate.weight"] = {SmallCheckpoint::kExperts, SmallCheckpoint::kDim};
      tensors[at + "experts.gate_up_proj"] = {SmallCheckpoint::kExperts, 2 * SmallCheckpoint::kWidth,
                                              SmallCheckpoint::kDim};
      tensors[at + "experts.down_proj"] = {SmallCheckpoint::kExperts, SmallCheckpoint::kDim, SmallCheckpoint::kWidth};
    }
  });
  CheckpointModel model(folder.path());
  const FormatPlan plan = plan_of(model, {.bits = 6});
  ASSERT_EQ(plan.groups.size(), 3 * SmallCheckpoint::kLayers);
  const WeightGroup& experts = plan.groups[2];
  EXPECT_EQ(experts.modules, (std::vector<std::string>{"model.layers.0.mlp.experts.gate_up_proj",
                                                       "model.layers.0.mlp.experts.down_proj"}));
  EXPECT_EQ(experts.weights, 3.0 * SmallCheckpoint::kExperts * SmallCheckpoint::kDim * SmallCheckpoint::kWidth);
}

}  // namespace
}  // namespace moescope
