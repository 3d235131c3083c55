// Number formats of runs as configs of torchao and TransformerEngine.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "core/config/config_field.h"
#include "core/config/config_toml.h"
#include "core/findings/comparison/training_recipe.h"
#include "core/findings/comparison/verdict.h"
#include "core/numerics/rng.h"
#include "tests/support/problem_of.h"

namespace moescope {
namespace {

using ConfigJson = nlohmann::json;

std::vector<std::string> sentences_of(const ConfigJson& recipe) {
  return recipe["not_expressed"].get<std::vector<std::string>>();
}

TEST(TrainingRecipe, EachRecipeIsAConfigOrASentence) {
  int torchao_configs = 0, te_configs = 0;
  for (const RecipeInfo& info : recipes()) {
    RunConfig config;
    config.precision.experts = info.recipe;
    const ConfigJson recipe = training_recipe(config);
    const bool quantized = info.recipe != Recipe::fp32 && info.recipe != Recipe::bf16;
    const bool torchao = !recipe["torchao"]["configs"].empty();
    const bool te = !recipe["transformer_engine"]["by_class"]["experts"].is_null();
    EXPECT_EQ(sentences_of(recipe).size(), quantized ? 2u - torchao - te : 0u) << info.name;
    EXPECT_TRUE(quantized || (!torchao && !te)) << info.name;
    torchao_configs += torchao;
    te_configs += te;
  }
  EXPECT_EQ(torchao_configs, 3);  // mxfp8_rceil, mxfp8_rceil_wgrad_with_hp, fp8_rowwise
  EXPECT_EQ(te_configs, 4);       // nvfp4 only with the scales of TransformerEngine
}

TEST(TrainingRecipe, NoSettingIsDroppedInSilence) {
  RunConfig config;
  config.precision.experts = Recipe::mxfp8_rceil;
  for (const ConfigField& field : config_fields()) {
    if (!Setting(field).is_in<PrecisionConfig>() || field.derived) continue;
    RunConfig changed = config;
    const ConfigValue present = field.get(config);
    if (!field.choices.empty())
      field.set(changed, to_string(present) == field.choices.front() ? field.choices.back() : field.choices.front());
    else if (std::holds_alternative<bool>(present))
      field.set(changed, !std::get<bool>(present));
    else if (std::holds_alternative<std::string>(present))
      field.set(changed, std::string("experts.dY=bf16"));
    else
      field.set(changed, std::int64_t{1});
    EXPECT_NE(training_recipe(changed), training_recipe(config)) << field.key;
  }
}

TEST(TrainingRecipe, ThePublishedNvfp4RecipeIsOneOfTransformerEngine) {
  RunConfig config;
  config.model.n_layers = 5;
  apply_published_recipe("nvfp4_nvidia", config.precision);
  config.precision.layers_at_start_in_bf16 = 1;
  config.precision.layers_at_end_in_bf16 = 2;
  const ConfigJson te = training_recipe(config)["transformer_engine"];
  EXPECT_EQ(te["layers_in_bf16"], (std::vector<int>{0, 3, 4}));
  const ConfigJson experts = te["by_class"]["experts"];
  EXPECT_EQ(experts["recipe"], "NVFP4BlockScaling");
  EXPECT_EQ(
      experts["arguments"],
      (ConfigJson{{"disable_rht", false}, {"disable_stochastic_rounding", false}, {"disable_2d_quantization", false}}));
  config.precision.nvfp4_rule = Nvfp4Rule::divided;
  const ConfigJson other = training_recipe(config);
  EXPECT_TRUE(other["transformer_engine"]["by_class"]["experts"].is_null());
}

HistoryPtr recorded_run(const char* name, Recipe experts, double loss) {
  RunConfig config;
  config.name = name;
  config.precision.experts = experts;
  RunInfo info;
  info.name = name;
  info.config_toml = to_toml(config);
  auto history = std::make_shared<History>(info);
  const RandomStream stream(3, name);
  for (int step = 0; step < 200; ++step) {
    TelemetryFrame frame;
    frame.step = step;
    frame.ce_loss = static_cast<float>(loss + 1e-4 * stream.normal(static_cast<std::uint64_t>(step)));
    history->append(std::make_shared<const TelemetryFrame>(frame));
  }
  return history;
}

TEST(TrainingRecipe, AComparisonGivesEachRunItsVerdict) {
  const HistoryPtr a = recorded_run("high", Recipe::bf16, 2), twin = recorded_run("twin", Recipe::bf16, 2.0001),
                   b = recorded_run("low", Recipe::mxfp8_rceil, 2.5);
  const ConfigJson found = ConfigJson::parse(compared_recipes(std::vector<ReplayRun>{
      {.history = a}, {.history = b, .same_start = false}, {.history = twin, .same_start = false, .twin = twin}}));
  EXPECT_EQ(found["baseline"], "high");
  ASSERT_EQ(found["recipes"].size(), 2u);
  EXPECT_FALSE(found["recipes"][0].contains("evidence"));
  const ConfigJson evidence = found["recipes"][1]["evidence"];
  EXPECT_EQ(evidence["verdict"], "So far: worse");
  EXPECT_NEAR(evidence["gap"].get<double>(), 0.5, 0.01);
  EXPECT_EQ(evidence["steps"], 200);
  EXPECT_EQ(evidence["noise_twins"], 1);
  EXPECT_EQ(found["recipes"][1]["torchao"]["configs"][0]["recipe"], "mxfp8_rceil");
}

TEST(TrainingRecipe, RefusesWhatRestsOnNoComparison) {
  const HistoryPtr a = recorded_run("high", Recipe::bf16, 2);
  EXPECT_NE(problem_of([&] { compared_recipes(std::vector<ReplayRun>{{.history = a}}); }), "");
  EXPECT_NE(problem_of([&] { compared_recipes({}); }), "");
  RunInfo log_info;
  log_info.name = "log";
  const auto log = std::make_shared<History>(log_info);
  EXPECT_NE(problem_of([&] {
              compared_recipes(std::vector<ReplayRun>{{.history = log}, {.history = a}});
            }).find("the settings of run log are not known"),
            std::string::npos);
}

}  // namespace
}  // namespace moescope
