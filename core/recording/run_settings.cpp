#include "core/recording/run_settings.h"

#include <array>
#include <cstdlib>

#include "core/io/json_text.h"
#include "core/io/toml_text.h"
#include "core/io/trimmed.h"

namespace moescope {

namespace {

// Of "key = value  # comment": a text as it is meant, any other value as it is written.
std::optional<std::string> value_of(std::string_view line) {
  try {
    const toml::table table = parse_toml(line, "");
    if (table.empty()) return std::nullopt;
    if (const auto* text = table.begin()->second.as_string()) return text->get();
  } catch (const toml::parse_error&) {
    return std::nullopt;
  }
  const std::string_view value = line.substr(line.find('=') + 1);
  return std::string(trimmed(value.substr(0, value.find('#'))));
}

// As to_toml() writes it: [section], then a key a line. Only the line that is wanted is parsed.
std::optional<std::string> value_in(std::string_view toml, std::string_view section, std::string_view name) {
  std::string_view here;
  while (!toml.empty()) {
    const auto end = toml.find('\n');
    const std::string_view line = trimmed(toml.substr(0, end));
    toml.remove_prefix(end == std::string_view::npos ? toml.size() : end + 1);
    if (line.empty() || line.front() == '#') continue;
    if (line.front() == '[') {
      here = line.substr(1, line.find(']') - 1);
      continue;
    }
    const auto equals = line.find('=');
    if (here == section && equals != std::string_view::npos && trimmed(line.substr(0, equals)) == name)
      return value_of(line);
  }
  return std::nullopt;
}

struct LogName {
  std::string_view key, name;
};
// TorchTitan calls the rate of the bias load_balance_coeff; moe_ are Megatron-LM's names, router_aux_loss_coef those of
// transformers.
constexpr std::array<LogName, 12> kLogNames = {{
    {"router.bias_update_rate", "bias_update_rate"},
    {"router.bias_update_rate", "load_balance_coeff"},
    {"router.bias_update_rate", "moe_router_bias_update_rate"},
    {"router.aux_coeff", "aux_coeff"},
    {"router.aux_coeff", "aux_loss_coeff"},
    {"router.aux_coeff", "moe_aux_loss_coeff"},
    {"router.aux_coeff", "router_aux_loss_coef"},
    {"router.score_func", "score_func"},
    {"router.score_func", "moe_router_score_function"},
    {"optimizer.lr", "lr"},
    {"optimizer.lr", "learning_rate"},
    {"precision.experts", "precision"},
}};

constexpr std::string_view kMainKeys[] = {"router.balance_rule", "router.bias_update_rate", "router.aux_mode",
                                          "router.aux_coeff",    "precision.experts",       "optimizer.lr"};

bool is_in_logs(std::string_view key) {
  for (const LogName& each : kLogNames)
    if (each.key == key) return true;
  return false;
}

}  // namespace

std::optional<std::string> setting_at_start(const History& history, std::string_view key) {
  if (history.info().config_toml.empty()) {
    if (!is_in_logs(key)) return std::nullopt;  // without parsing the log's settings
    const auto found = find_setting(log_settings(history), key);
    return found ? std::optional(found->value) : std::nullopt;
  }
  const auto dot = key.find('.');
  const std::string_view section = dot == std::string_view::npos ? std::string_view() : key.substr(0, dot);
  const std::string_view name = dot == std::string_view::npos ? key : key.substr(dot + 1);
  return value_in(history.info().config_toml, section, name);
}

LogSettings log_settings(const History& history) {
  LogSettings settings;
  for (const Marker& marker : history.markers()) {
    if (marker.kind != kSettingsMarker) continue;
    nlohmann::json json;
    try {
      json = parse_json(marker.text);
    } catch (const BadJson&) {
      continue;  // not written by an import
    }
    if (!json.is_object()) continue;
    for (const auto& [key, value] : json.items())
      settings[key] = value.is_string() ? value.get<std::string>() : value.dump();
  }
  return settings;
}

std::optional<StatedSetting> find_setting(const LogSettings& settings, std::string_view key) {
  for (const LogName& each : kLogNames) {
    if (each.key != key) continue;
    if (const auto found = settings.find(std::string(each.name)); found != settings.end())
      return StatedSetting{found->first, found->second};
  }
  return std::nullopt;
}

std::vector<StatedSetting> main_settings(const History& history, std::int64_t step) {
  std::vector<StatedSetting> found;
  const bool has_config = !history.info().config_toml.empty();
  const LogSettings logged = has_config ? LogSettings{} : log_settings(history);
  for (const std::string_view key : kMainKeys) {
    const auto in_log = find_setting(logged, key);
    const auto value = has_config ? setting_at(history, key, step)
                       : in_log   ? std::optional(in_log->value)
                                  : std::nullopt;
    const bool of_no_loss =
        key == "router.aux_coeff" && !found.empty() && found.back().name == "aux_mode" && found.back().value == "none";
    const bool of_sign_rule = key == "router.bias_update_rate" && !found.empty();  // and the rule is another
    const bool unused = of_no_loss || of_sign_rule || (key == "router.balance_rule" && value == "sign");
    if (value && !value->empty() && !unused)
      found.push_back({in_log ? in_log->name : std::string(key.substr(key.find('.') + 1)), *value});
  }
  if (const auto balance = logged.find("balance"); balance != logged.end())
    found.push_back({balance->first, balance->second});
  return found;
}

std::optional<std::string> setting_at(const History& history, std::string_view key, std::int64_t step) {
  std::optional<std::string> value = setting_at_start(history, key);
  for (const Marker& marker : history.markers())
    if (marker.key == key && marker.step <= step && marker.run == history.info().run) value = marker.value;
  return value;
}

std::optional<double> number_at(const History& history, std::string_view key, std::int64_t step) {
  const auto text = setting_at(history, key, step);
  if (!text) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(text->c_str(), &end);
  if (end == text->c_str()) return std::nullopt;
  return value;
}

}  // namespace moescope
