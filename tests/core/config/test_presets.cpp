#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "core/config/config_check.h"
#include "core/config/config_difference.h"
#include "core/config/config_field.h"
#include "core/config/config_toml.h"
#include "core/config/run_config.h"
#include "core/files/assets.h"
#include "tests/support/configs.h"

namespace moescope {
namespace {

TEST(Presets, AllAreValidAndNamed) {
  std::size_t files = 0;
  for (const Asset& asset : assets()) files += asset.name.starts_with("presets/");
  EXPECT_EQ(files, preset_names().size() + comparison_preset_names().size());
  for (const std::string& name : preset_names()) {
    const ParsedConfig preset = load_preset(name);
    EXPECT_EQ(all_text(preset.problems), "");
    EXPECT_EQ(preset.config.name, name);
    EXPECT_LT(memory_estimate(preset.config), 1e9);
  }
}

TEST(Presets, ComparisonsAreValidAndEachHasANoiseTwin) {
  for (const std::string& name : comparison_preset_names()) {
    const ParsedConfig preset = load_preset(name);
    EXPECT_EQ(all_text(preset.problems), "") << name;
    const std::vector<RunConfig> runs = all_runs(preset);
    ASSERT_GE(runs.size(), 3u) << name;
    EXPECT_TRUE(is_noise_twin(runs.front(), runs.back())) << name << ": what else would the band be made of";
    for (const RunConfig& run : runs) {
      EXPECT_TRUE(validate(run).empty()) << name;
      const bool is_everywhere = name == "mxfp4-everywhere" && run.name == "mxfp4";
      EXPECT_EQ(run.precision.router_gate == Recipe::mxfp4, is_everywhere) << name;
    }
  }
  const std::vector<RunConfig> check = all_runs(load_preset("convergence-check"));
  EXPECT_EQ(check[0].optimizer.total_steps, 1500);
  EXPECT_EQ(check[0].model.n_experts, 64) << "as preset = \"16B-like\" says";
  EXPECT_EQ(check[0].precision.experts, Recipe::bf16);
  EXPECT_EQ(difference(check[0], check[1]),
            (std::vector<ConfigDifference>{{&PrecisionConfig::experts, "bf16", "mxfp8_rceil"},
                                           {&PrecisionConfig::dense_ffn, "bf16", "mxfp8_rceil"}}));
}

TEST(Presets, RouterSettingsEqualPublishedModels) {
  const auto router = [](const char* name) { return load_preset(name).config.router; };
  EXPECT_EQ(router("mini-v3").score_func, ScoreFunc::sigmoid);
  EXPECT_GT(router("mini-v3").n_groups, 0);
  EXPECT_GT(load_preset("mini-v3").config.model.q_lora_rank, 0);
  EXPECT_EQ(router("16B-like").score_func, ScoreFunc::softmax);
  EXPECT_EQ(router("16B-like").top_k, 6);
  EXPECT_EQ(load_preset("16B-like").config.model.n_experts, 64);
  EXPECT_EQ(load_preset("16B-like").config.model.n_shared, 2);
}

// The routers are those of the sources that the presets name.
TEST(Presets, RealModelsHaveTheirRouters) {
  const auto config = [](const char* name) { return load_preset(name).config; };
  EXPECT_EQ(config("mini-DeepSeek-V3").router.n_limited_groups, 4);
  EXPECT_EQ(config("mini-DeepSeek-V4").router.score_func, ScoreFunc::sqrtsoftplus);
  EXPECT_GT(config("mini-DeepSeek-V4").router.n_hash_layers, 0);
  EXPECT_EQ(config("mini-DeepSeek-V4").model.n_dense_layers, 0);
  const RunConfig k3 = config("mini-Kimi-K3"), super = config("mini-Nemotron-3-Super"),
                  qwen = config("mini-Qwen3-Next");
  EXPECT_EQ(k3.model.n_experts / k3.router.top_k, 896 / 16);
  EXPECT_EQ(k3.model.dim / k3.model.latent_dim, 7168 / 3584);
  EXPECT_TRUE(k3.model.latent_norm);
  EXPECT_EQ(k3.router.balance_rule, BalanceRule::quantile_batch);
  EXPECT_EQ(super.model.dim / super.model.latent_dim, 4096 / 1024);
  EXPECT_FALSE(super.model.latent_norm);
  EXPECT_TRUE(qwen.model.shared_expert_gate);
  EXPECT_EQ(qwen.router.aux_mode, AuxMode::batch);
  EXPECT_FALSE(config("mini-OLMoE").router.route_norm);
  for (const char* name : {"mini-gpt-oss", "mini-OLMoE"}) EXPECT_EQ(config(name).model.n_shared, 0) << name;
  for (const std::string& name : model_preset_names())
    EXPECT_NE(preset_about(name).find("Not here:"), std::string::npos) << name << ": what the program cannot do";
}

// Returns true if a setting has an effect in a run.
bool has_effect(const RunConfig& config, Setting setting) {
  const RouterConfig& r = config.router;
  if (setting == &ModelConfig::dense_inter) return config.model.n_dense_layers > 0;
  if (setting == &ModelConfig::latent_norm) return config.model.latent_dim > 0;
  if (setting == &ModelConfig::shared_expert_gate) return config.model.n_shared > 0;
  if (setting == &RouterConfig::n_limited_groups) return r.n_groups > 0;
  if (setting == &RouterConfig::aux_coeff) return r.aux_mode != AuxMode::none;
  if (setting == &RouterConfig::bias_update_rate) return !by_quantiles(r.balance_rule);
  if (setting == &RouterConfig::balance_rule) return by_quantiles(r.balance_rule) || r.bias_update_rate > 0;
  return true;
}

// Returns the settings of model or router in which the presets of real models differ, as rows of a table.
template <class Section>
std::vector<std::string> real_model_rows() {
  std::vector<std::string> rows;
  for (const ConfigField& field : config_fields()) {
    const Setting setting = field;
    if (!setting.is_in<Section>()) continue;
    std::string row = "| `" + std::string(field.name()) + "` |";
    std::set<std::string> values;
    for (const std::string& name : model_preset_names()) {
      const RunConfig preset = load_preset(name).config;
      const std::string value = has_effect(preset, setting) ? to_string(field.get(preset)) : "-";
      row += " " + value + " |";
      values.insert(value);
    }
    if (values.size() > 1) rows.push_back(row);
  }
  return rows;
}

TEST(Presets, ManualComparesRealModels) {
  std::ifstream file(std::string(MOESCOPE_TEST_DATA) + "/../docs/router-and-balance.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  for (const auto& rows : {real_model_rows<ModelConfig>(), real_model_rows<RouterConfig>()}) {
    std::string table;
    for (const std::string& row : rows) table += row + "\n";
    EXPECT_NE(page.find("|\n" + table + "\n"), std::string::npos) << table;
  }
}

TEST(PublishedRecipes, RecognisedBySettings) {
  ASSERT_GE(published_recipe_names().size(), 7u);
  for (const std::string_view name : published_recipe_names()) {
    SCOPED_TRACE(name);
    EXPECT_NE(published_recipe_about(name).find("Source: "), std::string::npos);
    RunConfig run;
    run.precision.payload = TokenPayload::mxfp8;
    run.precision.override_dy = kBf16Format;
    apply_published_recipe(name, run.precision);
    EXPECT_EQ(published_recipe_of(run.precision), name);
    EXPECT_EQ(run.precision.payload, TokenPayload::mxfp8) << "the all-to-all's";
    EXPECT_FALSE(run.precision.override_dy);
    EXPECT_EQ(all_text(validate(run)), "");
    EXPECT_EQ(twin_name(RunConfig{}, run), "run+" + std::string(name));
    run.precision.head = Recipe::mxfp4;
    EXPECT_EQ(published_recipe_of(run.precision), "");
  }
  EXPECT_EQ(published_recipe_of({}), "");
  EXPECT_EQ(published_recipe_about("none"), "");
}

TEST(PublishedRecipes, OwnSettingsOverrideRecipe) {
  const ParsedConfig parsed = parse_config(
      "[precision]\nattention = \"mxfp8_rceil\"\npublished_recipe = \"nvfp4_nvidia\"\n\n"
      "[[compare]]\nprecision.published_recipe = \"mxfp8_nvidia\"\n",
      "run.toml");
  ASSERT_EQ(all_text(parsed.problems), "");
  EXPECT_EQ(parsed.config.precision.attention, Recipe::mxfp8_rceil);
  EXPECT_EQ(parsed.config.precision.experts, Recipe::nvfp4);
  EXPECT_EQ(parsed.twins.at(0).name, "run+mxfp8_nvidia");
  const ConfigField& field = *find_field("precision.published_recipe");
  EXPECT_EQ(to_string(field.get(parsed.config)), "own");
  EXPECT_EQ(to_string(field.get(parsed.twins.at(0))), "mxfp8_nvidia");
  for (const ConfigDifference& found : difference(parsed.config, parsed.twins.at(0)))
    EXPECT_NE(found.setting, Setting(field)) << "what it sets is named";
  RunConfig preset = parsed.config;
  field.set(preset, std::string("own"));
  EXPECT_EQ(preset.precision, parsed.config.precision);
  EXPECT_EQ(to_toml(parsed.twins.at(0)).find("published_recipe"), std::string::npos);
  EXPECT_NE(all_text(parse_config("precision.published_recipe = \"fp1\"", "").problems).find("nvfp4_nvidia"),
            std::string::npos);
}

// As in the published runs: all that is not in MXFP8 is in BF16, except the product and the scores of the gate.
TEST(Presets, TrainInTheFormatsOfThePublishedRuns) {
  const auto precision = [](const char* name) { return load_preset(name).config.precision; };
  for (const char* name : {"small", "mini-v3", "16B-like"}) {
    const PrecisionConfig p = precision(name);
    EXPECT_EQ(p.experts, std::string_view(name) == "16B-like" ? Recipe::bf16 : Recipe::mxfp8_rceil) << name;
    for (const Recipe recipe : {p.shared_experts, p.dense_ffn, p.attention, p.head})
      EXPECT_EQ(recipe, Recipe::bf16) << name;
    EXPECT_EQ(p.router_gate, Recipe::fp32) << name;
  }
  for (const char* name : {"nano", "small-fp32"}) {
    const PrecisionConfig p = precision(name);
    for (const Recipe recipe : {p.experts, p.shared_experts, p.dense_ffn, p.attention, p.router_gate, p.head})
      EXPECT_EQ(recipe, Recipe::fp32) << name;
  }
  for (const ConfigDifference& found : difference(load_preset("small").config, load_preset("small-fp32").config))
    EXPECT_TRUE(found.setting.is_in<PrecisionConfig>()) << found.setting.key();
}

// Formats of TorchTitan's mixed precision and of DeepSeek-V3's moments. Comparisons keep the formats measured with.
TEST(Presets, StoredFormatsEqualSources) {
  const auto config = [](const char* name) { return load_preset(name).config; };
  for (const char* name : {"mini-v3", "16B-like"}) {
    const RunConfig run = config(name);
    for (const StoredFormat format : {run.precision.activations, run.precision.residual, run.precision.norm_gains})
      EXPECT_EQ(format, StoredFormat::bf16) << name;
    for (const StoredFormat format :
         {run.precision.gate_output, run.optimizer.master_format, run.optimizer.moment1_format,
          run.optimizer.moment2_format, run.router.bias_format, run.router.count_format})
      EXPECT_EQ(format, StoredFormat::fp32) << name;
    EXPECT_EQ(run.precision.operands, "router_gate.W=bf16") << name;
    EXPECT_EQ(all_text(validate(run)), "") << name;
  }
  const OptimizerConfig v3 = config("mini-DeepSeek-V3").optimizer;
  EXPECT_EQ(v3.moment1_format, StoredFormat::bf16);
  EXPECT_EQ(v3.moment2_format, StoredFormat::bf16);
  EXPECT_EQ(v3.master_format, StoredFormat::fp32);
  for (const char* name : {"convergence-check", "mxfp4-everywhere", "mini-v3-formats"})
    for (const RunConfig& run : all_runs(load_preset(name))) {
      EXPECT_EQ(run.precision.activations, StoredFormat::fp32) << name << " " << run.name;
      EXPECT_EQ(run.precision.operands, "") << name << " " << run.name;
    }
}

TEST(Presets, UnknownOneNamesTheKnown) {
  EXPECT_EQ(all_text(load_preset("tiny").problems),
            "preset: is \"tiny\"; allowed: nano, nano-facts, long-context, small, small-fp32, mini-v3, 16B-like, "
            "mini-OLMoE, mini-DeepSeek-V3, mini-gpt-oss, mini-Qwen3-Next, mini-Nemotron-3-Super, mini-DeepSeek-V4, "
            "mini-Kimi-K3, precisions, convergence-check, "
            "mxfp4-everywhere, mini-v3-formats, fp4-study\n");
}

TEST(Presets, ComparisonsStateWhatIsExpected) {
  for (const std::string& name : comparison_preset_names()) {
    const std::string about = preset_about(name);
    EXPECT_NE(about.find("\n\n"), std::string::npos) << name << ": what it is, then what comes out";
    EXPECT_EQ(about.find('#'), std::string::npos) << name;
  }
  EXPECT_NE(preset_about("mini-v3").find("DeepSeek-V3"), std::string::npos);
  EXPECT_EQ(preset_about("no such preset"), "");
}

}  // namespace
}  // namespace moescope
