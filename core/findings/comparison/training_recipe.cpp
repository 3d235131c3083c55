#include "core/findings/comparison/training_recipe.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/config/config_field.h"
#include "core/files/text/text_escape.h"
#include "core/findings/comparison/verdict_words.h"
#include "core/frame/metrics.h"

namespace moescope {
namespace {

using RecipeJson = nlohmann::json;

struct QuantizedClass {
  Recipe PrecisionConfig::*recipe;
  const char* fqn;  // TorchTitan
};
constexpr QuantizedClass kQuantizedClasses[] = {
    {&PrecisionConfig::experts, "moe.experts"},         {&PrecisionConfig::shared_experts, "moe.shared_experts"},
    {&PrecisionConfig::dense_ffn, "feed_forward"},      {&PrecisionConfig::attention, "attention"},
    {&PrecisionConfig::router_gate, "moe.router.gate"}, {&PrecisionConfig::head, "output"}};

bool is_quantized(Recipe recipe) {
  return recipe != Recipe::fp32 && recipe != Recipe::bf16;
}

// Whether NVFP4BlockScaling can compute nvfp4 as this config does.
bool is_nvfp4_of_te(const PrecisionConfig& p) {
  const bool rotation =
      !p.hadamard || (p.hadamard_gemms == RotatedGemms::wgrad && p.hadamard_signs != RotationForm::drawn);
  const bool rounding = p.rounding == Rounding::nearest || p.stochastic_operands == StochasticOperands::gradients;
  return rotation && rounding && p.nvfp4_rule == Nvfp4Rule::transformer_engine &&
         p.nvfp4_four_over_six == FourOverSixChoice::off;
}

class RecipeWriter {
 public:
  explicit RecipeWriter(const RunConfig& config) : config_(config), p_(config.precision) {}

  RecipeJson write() {
    RecipeJson configs = RecipeJson::array(), by_class = RecipeJson::object();
    for (const QuantizedClass& quantized : kQuantizedClasses) {
      const Setting setting(quantized.recipe);
      expressed_.insert(setting.key());
      const Recipe recipe = p_.*quantized.recipe;
      by_class[setting.name()] = nullptr;
      if (!is_quantized(recipe)) continue;
      const std::string value = setting.key() + " = " + recipe_info(recipe).name;
      RecipeJson torchao = torchao_config(recipe, quantized.recipe == &PrecisionConfig::experts);
      if (torchao.is_null()) {
        miss("torchao has no MoE training config for " + value);
      } else {
        torchao["fqns"] = {quantized.fqn};
        configs.push_back(std::move(torchao));
      }
      by_class[setting.name()] = transformer_engine_config(recipe);
      if (by_class[setting.name()].is_null()) miss("TransformerEngine has no recipe for " + value);
    }
    const std::vector<int> layers = bf16_layers();
    RecipeJson skipped = RecipeJson::array();
    for (const int layer : layers) skipped.push_back(fmt::format("layers.{}.", layer));
    add_other_settings();
    return {{"torchao", {{"configs", std::move(configs)}, {"skip_fqns", std::move(skipped)}}},
            {"transformer_engine", {{"by_class", std::move(by_class)}, {"layers_in_bf16", layers}}},
            {"not_expressed", missing_}};
  }

 private:
  void miss(std::string sentence) { missing_.push_back(std::move(sentence)); }

  static RecipeJson torchao_config(Recipe recipe, bool routed_experts) {
    const std::string name = recipe_info(recipe).name;
    if (recipe == Recipe::mxfp8_rceil || recipe == Recipe::mxfp8_rceil_wgrad_with_hp)
      return {{"config", "MXFP8TrainingOpConfig"}, {"recipe", name}};
    if (recipe == Recipe::fp8_rowwise) return {{"config", "Float8TrainingOpConfig"}, {"recipe", name}};
    if (recipe == Recipe::fp8_tensorwise && !routed_experts)
      return {{"config", "Float8TrainingOpConfig"}, {"arguments", {{"float8_linear_recipe", "tensorwise"}}}};
    return nullptr;
  }

  RecipeJson transformer_engine_config(Recipe recipe) {
    const auto te = [](const char* name, RecipeJson arguments) {
      return RecipeJson{{"recipe", name}, {"arguments", std::move(arguments)}};
    };
    switch (recipe) {
      case Recipe::fp8_tensorwise:
        return te("Float8CurrentScaling", {{"fp8_format", "HYBRID"}});
      case Recipe::fp8_deepseek_128: {
        RecipeJson found = te("Float8BlockScaling", {{"fp8_format", "E4M3"}});
        found["environment"] = {{"NVTE_FP8_BLOCK_SCALING_FP32_SCALES", "1"}};  // no argument has this effect
        return found;
      }
      case Recipe::mxfp8_rceil:
        return te("MXFP8BlockScaling", {{"fp8_format", "E4M3"}});
      case Recipe::mxfp8_e5m2_grad:
        return te("MXFP8BlockScaling", {{"fp8_format", "HYBRID"}});
      case Recipe::nvfp4:
        if (!is_nvfp4_of_te(p_)) return nullptr;
        for (const Setting setting :
             {Setting(&PrecisionConfig::rounding), Setting(&PrecisionConfig::stochastic_operands),
              Setting(&PrecisionConfig::hadamard), Setting(&PrecisionConfig::hadamard_gemms),
              Setting(&PrecisionConfig::hadamard_signs), Setting(&PrecisionConfig::nvfp4_rule),
              Setting(&PrecisionConfig::nvfp4_square_weights)})
          nvfp4_keys_.insert(setting.key());
        return te("NVFP4BlockScaling", {{"disable_rht", !p_.hadamard},
                                        {"disable_stochastic_rounding", p_.rounding == Rounding::nearest},
                                        {"disable_2d_quantization", !p_.nvfp4_square_weights}});
      default:
        return nullptr;
    }
  }

  std::vector<int> bf16_layers() {
    expressed_.insert(Setting(&PrecisionConfig::layers_at_start_in_bf16).key());
    expressed_.insert(Setting(&PrecisionConfig::layers_at_end_in_bf16).key());
    std::vector<int> layers;
    for (int layer = 0; layer < config_.model.n_layers; ++layer)
      if (layer < p_.layers_at_start_in_bf16 || layer >= config_.model.n_layers - p_.layers_at_end_in_bf16)
        layers.push_back(layer);
    return layers;
  }

  // Names every other setting of [precision] that has not its default.
  void add_other_settings() {
    const bool all_nvfp4 = std::ranges::all_of(kQuantizedClasses, [&](const QuantizedClass& quantized) {
      return !is_quantized(p_.*quantized.recipe) || p_.*quantized.recipe == Recipe::nvfp4;
    });
    for (const ConfigField& field : config_fields()) {
      if (!Setting(field).is_in<PrecisionConfig>() || field.derived || expressed_.contains(field.key)) continue;
      if (field.get(config_) == field.get(default_config())) continue;
      const std::string value = printable(field.key + " = " + to_string(field.get(config_)));
      if (!nvfp4_keys_.contains(field.key))
        miss(value + " is in neither config");
      else if (!all_nvfp4)
        miss(value + " is in the recipe of nvfp4 alone");
    }
  }

  const RunConfig& config_;
  const PrecisionConfig& p_;
  std::set<std::string> expressed_, nvfp4_keys_;  // keys
  std::vector<std::string> missing_;
};

// Returns the settings at the end of a run that trained here.
RunConfig config_of(const History& history) {
  const auto settings = history.settings_at(history.steps().last);
  if (!settings->config())
    throw std::runtime_error("the settings of run " + printable(history.info().name) +
                             " are not known: a training recipe needs runs that this program trained");
  return *settings->config();
}

// Figures that are not known become null.
RecipeJson evidence_of(const Conclusion& conclusion) {
  return {{"verdict", verdict_name(conclusion)},      {"sentence", printable(verdict_sentence(conclusion))},
          {"loss", metric_info(conclusion.loss).key}, {"gap", conclusion.gap},
          {"interval", conclusion.half_width},        {"matters", conclusion.matters},
          {"steps", conclusion.common_steps},         {"noise_twins", conclusion.twins}};
}

}  // namespace

RecipeJson training_recipe(const RunConfig& config) {
  return RecipeWriter(config).write();
}

std::string compared_recipes(std::span<const ReplayRun> runs) {
  std::vector<PairedRun> twins;
  for (const ReplayRun& run : runs)
    if (run.twin) twins.push_back({run.twin, run.same_start});
  const int candidates = to_int(runs.size() - twins.size()) - 1;
  if (candidates < 1)
    throw std::runtime_error("a training recipe rests on a comparison of at least two runs, beside noise twins");
  const HistoryPtr& baseline = runs.front().history;
  RecipeJson recipes = RecipeJson::array();
  for (const ReplayRun& run : runs) {
    if (run.twin) continue;
    const RunConfig config = config_of(*run.history);
    RecipeJson recipe = {{"run", printable(run.history->info().name)}, {"seed", config.seed}};
    recipe.update(training_recipe(config));
    if (!(config.precision == run.history->settings_at_start()->config()->precision))
      recipe["not_expressed"].push_back("the formats were changed during the run; this is the recipe of its end");
    if (run.history != baseline)
      recipe["evidence"] =
          evidence_of(conclude(baseline, {run.history, run.same_start}, twins, {kRelevantGap, candidates}));
    recipes.push_back(std::move(recipe));
  }
  return RecipeJson{{"baseline", printable(baseline->info().name)}, {"recipes", std::move(recipes)}}.dump(2) + "\n";
}

}  // namespace moescope
