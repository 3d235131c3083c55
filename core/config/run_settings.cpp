#include "core/config/run_settings.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/files/assets.h"
#include "core/files/text/toml_section.h"

namespace moescope {

namespace {

// Reads the beginning of a file; the names of values behind it, which take most time, are those of core/logs/tag_map.h.
std::vector<LogName> names_in(const Asset& file) {
  std::vector<LogName> names;
  read_valid_toml(file.text.substr(0, file.text.find("[[tag]]")), file.name, [&](TomlSection& root) {
    root.unread_table();
    const std::string program = root.text("program");
    const bool are_options = root.flag("options");
    root.inside("settings", [&](TomlSection& settings) {
      for (const auto& [setting, list] : settings.unread_table())
        for (const std::string& name : settings.texts(setting.str()))
          names.push_back({std::string(setting.str()), name, program, are_options});
    });
  });
  return names;
}

// Settings that a log may state, with their keys in the files of names (log_names()).
struct LoggedSetting {
  Setting setting;
  const char* key;
};
const std::vector<LoggedSetting>& logged_settings() {
  static const std::vector<LoggedSetting> settings = {
      {&RouterConfig::bias_update_rate, "bias_update_rate"},
      {&RouterConfig::aux_coeff, "aux_coeff"},
      {&RouterConfig::z_coeff, "z_coeff"},
      {&RouterConfig::score_func, "score_func"},
      {&RouterConfig::route_norm, "route_norm"},
      {&RouterConfig::aux_mode, "aux_mode"},
      {&RouterConfig::capacity_factor, "capacity_factor"},
      {&RouterConfig::top_k, "top_k"},
      {&OptimizerConfig::lr, "lr"},
      {&OptimizerConfig::clip, "clip"},
      {&OptimizerConfig::warmup_steps, "warmup_steps"},
      {&PrecisionConfig::experts, "experts_precision"},
  };
  return settings;
}

// Finds the setting of a log that corresponds to a setting: "moe_aux_loss_coeff" for "aux_coeff". "model.top_k" is
// found by its last name if no other setting of this name has another value.
std::optional<StatedSetting> find_setting(const LogSettings& settings, std::string_view key) {
  for (const LogName& log_name : log_names()) {
    if (log_name.setting != key) continue;
    if (const auto found = settings.find(log_name.name); found != settings.end())
      return StatedSetting{found->first, found->second};
    std::optional<StatedSetting> inner;
    bool is_ambiguous = false;
    for (const auto& [name, value] : settings) {
      if (!name.ends_with('.' + log_name.name)) continue;
      is_ambiguous = is_ambiguous || (inner && inner->value != value);
      inner = {name, value};
    }
    if (inner && !is_ambiguous) return inner;
  }
  return std::nullopt;
}

// Returns the program to which most of the settings belong; empty if several have as many.
std::string program_of(const LogSettings& settings) {
  std::map<std::string, int> counts;
  for (const LogName& log_name : log_names())
    if (!log_name.program.empty() && settings.contains(log_name.name)) ++counts[log_name.program];
  const auto best_known = std::ranges::max_element(counts, {}, [](const auto& program) { return program.second; });
  const bool is_only =
      best_known != counts.end() &&
      std::ranges::count(counts, best_known->second, [](const auto& program) { return program.second; }) == 1;
  return is_only ? best_known->first : std::string();
}

// True for a number that a program of Python leaves out to switch off what it controls.
bool is_none(const std::string& value) {
  return value == "None" || value == "null";
}

// "moe_aux_loss_coeff" as an option is "--moe-aux-loss-coeff".
std::string as_used(const LogName& log_name) {
  std::string text = log_name.name;
  if (!log_name.is_option) return text;
  std::ranges::replace(text, '_', '-');
  return "--" + text;
}

}  // namespace

const std::vector<LogName>& log_names() {
  static const std::vector<LogName> names = [] {
    std::vector<LogName> all;
    for (const Asset& file : assets())
      if (file.name.starts_with("tags/") && file.name.ends_with(".toml"))
        std::ranges::move(names_in(file), std::back_inserter(all));
    std::stable_partition(all.begin(), all.end(), [](const LogName& name) { return name.program.empty(); });
    return all;
  }();
  return names;
}

RunSettings::RunSettings(const RunConfig& config) : config_(config), complete_(true) {}

RunSettings::RunSettings(LogSettings log, std::string program) : log_(std::move(log)), program_(std::move(program)) {
  if (program_.empty()) program_ = program_of(log_);
  if (std::ranges::find(log_names(), program_, &LogName::program) == log_names().end()) program_.clear();
  for (const LoggedSetting& logged : logged_settings()) {
    const auto found = find_setting(log_, logged.key);
    if (!found || !stated_.emplace(logged.setting, *found).second) continue;
    const bool is_off = logged.setting.is_in<RouterConfig>() && is_none(found->value);
    if (set(logged.setting, is_off ? "0" : found->value)) known_.insert(logged.setting);
  }
  // Megatron-LM states the rate of a bias that is switched off.
  const auto bias_switch = find_setting(log_, "bias_switch");
  if (!bias_switch || (bias_switch->value != "false" && bias_switch->value != "False")) return;
  change(&RouterConfig::bias_update_rate, "0");
  stated_[&RouterConfig::bias_update_rate] = *bias_switch;
}

bool RunSettings::set(Setting setting, const std::string& text) {
  try {
    setting.field().set(config_, parse_value(setting.field(), text));
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

std::string RunSettings::name_of(Setting setting, const std::string& otherwise) const {
  const auto logged = std::ranges::find(logged_settings(), setting, &LoggedSetting::setting);
  const auto stated = stated_.find(setting);
  const std::string name = stated != stated_.end() ? stated->second.name : std::string();
  if (program_.empty()) return name.empty() ? otherwise : name;
  for (const LogName& log_name : log_names())
    if (log_name.program == program_ && logged != logged_settings().end() &&
        (name.empty() ? log_name.setting == logged->key : log_name.name == name))
      return as_used(log_name);
  return name;
}

void RunSettings::change(Setting setting, const std::string& text) {
  if (!set(setting, text)) return;
  known_.insert(setting);
  if (const auto found = stated_.find(setting); found != stated_.end()) found->second.value = text;
}

}  // namespace moescope
