#include "core/config/run_settings.h"

#include <stdexcept>
#include <utility>

namespace moescope {

namespace {

struct LogName {
  Setting setting;
  const char* name;
};
// TorchTitan calls the bias update rate load_balance_coeff; moe_... are Megatron-LM's names, router_aux_loss_coef is
// the name in transformers.
const std::vector<LogName>& log_names() {
  static const std::vector<LogName> names = {
      {&RouterConfig::bias_update_rate, "bias_update_rate"},
      {&RouterConfig::bias_update_rate, "load_balance_coeff"},
      {&RouterConfig::bias_update_rate, "moe_router_bias_update_rate"},
      {&RouterConfig::aux_coeff, "aux_coeff"},
      {&RouterConfig::aux_coeff, "aux_loss_coeff"},
      {&RouterConfig::aux_coeff, "moe_aux_loss_coeff"},
      {&RouterConfig::aux_coeff, "router_aux_loss_coef"},
      {&RouterConfig::z_coeff, "z_coeff"},
      {&RouterConfig::z_coeff, "z_loss_coeff"},
      {&RouterConfig::z_coeff, "moe_z_loss_coeff"},
      {&RouterConfig::z_coeff, "router_z_loss_coef"},
      {&RouterConfig::score_func, "score_func"},
      {&RouterConfig::score_func, "moe_router_score_function"},
      {&OptimizerConfig::lr, "lr"},
      {&OptimizerConfig::lr, "learning_rate"},
      {&PrecisionConfig::experts, "precision"},
  };
  return names;
}

// Finds the setting of a log that corresponds to `setting`: router.bias_update_rate is bias_update_rate,
// load_balance_coeff, ...
std::optional<StatedSetting> find_setting(const LogSettings& settings, Setting setting) {
  for (const LogName& each : log_names()) {
    if (each.setting != setting) continue;
    if (const auto found = settings.find(each.name); found != settings.end())
      return StatedSetting{found->first, found->second};
  }
  return std::nullopt;
}

}  // namespace

RunSettings::RunSettings(const RunConfig& config) : config_(config), complete_(true) {}

RunSettings::RunSettings(LogSettings log) : log_(std::move(log)) {
  for (const LogName& each : log_names()) {
    const auto found = find_setting(log_, each.setting);
    if (!found || !stated_.emplace(each.setting, *found).second) continue;
    if (set(each.setting, found->value)) known_.insert(each.setting);
  }
}

bool RunSettings::set(Setting setting, const std::string& text) {
  try {
    const ConfigValue value = parse_value(setting.field(), text);
    if (!check_field(setting.field(), value).empty()) return false;
    setting.field().set(config_, value);
    return true;
  } catch (const std::invalid_argument&) {
    return false;
  }
}

std::optional<StatedSetting> RunSettings::stated(Setting setting) const {
  if (const auto found = stated_.find(setting); found != stated_.end()) return found->second;
  if (!knows(setting)) return std::nullopt;
  return StatedSetting{setting.name(), to_string(setting.field().get(config_))};
}

std::optional<std::string> RunSettings::text(Setting setting) const {
  const auto found = stated(setting);
  return found ? std::optional(found->value) : std::nullopt;
}

void RunSettings::change(Setting setting, const std::string& text) {
  if (!set(setting, text)) return;
  known_.insert(setting);
  if (const auto found = stated_.find(setting); found != stated_.end()) found->second.value = text;
}

}  // namespace moescope
