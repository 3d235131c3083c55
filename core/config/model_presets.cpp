#include "core/config/model_presets.h"

#include <algorithm>

#include "core/config/config_toml.h"

namespace moescope {
namespace {

// True if a setting has an effect in a run.
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

}  // namespace

std::vector<std::string> model_preset_names() {
  return {"OLMoE", "DeepSeek-V3", "gpt-oss", "Qwen3-Next", "Nemotron-3-Super", "DeepSeek-V4", "Kimi-K3"};
}

std::vector<PresetSetting> model_preset_table() {
  std::vector<RunConfig> presets;
  for (const std::string& name : model_preset_names()) presets.push_back(load_preset(name).config);
  std::vector<PresetSetting> table;
  for (const ConfigField& field : config_fields()) {
    const Setting setting = field;
    if (!setting.is_in<ModelConfig>() && !setting.is_in<RouterConfig>()) continue;
    PresetSetting row{setting, {}};
    for (const RunConfig& preset : presets)
      row.values.push_back(has_effect(preset, setting) ? to_string(field.get(preset)) : std::string());
    if (std::ranges::adjacent_find(row.values, std::not_equal_to()) != row.values.end()) table.push_back(row);
  }
  return table;
}

}  // namespace moescope
