// The table of fields: the only place that knows a setting's key, range, unit and meaning. The TOML reader, the
// validator, the set-up form, live changes and --help all read it.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/config/run_config.h"

namespace moescope {

using ConfigValue = std::variant<bool, std::int64_t, double, std::string>;

// One key. Enumerations are strings out of `choices`.
struct ConfigField {
  std::string key;                   // "router.top_k"
  std::string_view section;          // "router"; empty: a key without a section
  std::string group;                 // title of the form's group: "Router"
  std::string label;                 // "Experts per token"
  std::string unit;                  // "experts", "tokens", "steps", "" for none
  std::string help;                  // what it does, what good values are
  double min = 0, max = 0;           // inclusive; numbers only
  std::vector<std::string> choices;  // strings with a fixed set only
  bool live = false;                 // may change between two steps of a running trainer
  bool derived = false;              // stands for others: set() sets those, get() recognises them; kept in no file
  ConfigValue (*get)(const RunConfig&) = nullptr;
  void (*set)(RunConfig&, const ConfigValue&) = nullptr;  // the value has the field's type and passed check_field
  const void* (*member)(const RunConfig&) = nullptr;      // that get() reads; nullptr: derived

  std::string_view name() const {  // the key without its section
    return std::string_view(key).substr(section.empty() ? 0 : section.size() + 1);
  }
};

std::span<const ConfigField> config_fields();
const ConfigField* find_field(std::string_view key);  // nullptr: no such key
std::string nearest_key(std::string_view key);        // the known key closest in spelling
// The field of a member of `config`, which must have one.
const ConfigField& field_of_member(const RunConfig& config, const void* member);

// Sections of a config: their name in TOML and their place.
template <class Section>
inline constexpr std::string_view kSectionName{};
template <>
inline constexpr std::string_view kSectionName<ModelConfig> = "model";
template <>
inline constexpr std::string_view kSectionName<RouterConfig> = "router";
template <>
inline constexpr std::string_view kSectionName<OptimizerConfig> = "optimizer";
template <>
inline constexpr std::string_view kSectionName<PrecisionConfig> = "precision";
template <>
inline constexpr std::string_view kSectionName<DataConfig> = "data";
template <>
inline constexpr std::string_view kSectionName<ParallelConfig> = "parallel";
template <>
inline constexpr std::string_view kSectionName<TelemetryConfig> = "telemetry";

// `config`: a RunConfig, const or not.
template <class Section>
auto& section_of(auto& config) {
  if constexpr (std::is_same_v<Section, ModelConfig>)
    return config.model;
  else if constexpr (std::is_same_v<Section, RouterConfig>)
    return config.router;
  else if constexpr (std::is_same_v<Section, OptimizerConfig>)
    return config.optimizer;
  else if constexpr (std::is_same_v<Section, PrecisionConfig>)
    return config.precision;
  else if constexpr (std::is_same_v<Section, DataConfig>)
    return config.data;
  else if constexpr (std::is_same_v<Section, ParallelConfig>)
    return config.parallel;
  else if constexpr (std::is_same_v<Section, TelemetryConfig>)
    return config.telemetry;
  else
    return config;
}

// One setting, named by its member of the config: Setting(&RouterConfig::top_k).key() is "router.top_k".
class Setting {
 public:
  template <class Section, class T>
  requires(kSectionName<T>.empty()) Setting(T Section::*member) {
    static const RunConfig config;
    field_ = &field_of_member(config, &(section_of<Section>(config).*member));
  }
  Setting(const ConfigField& field) : field_(&field) {}  // of the table

  const ConfigField& field() const { return *field_; }
  const std::string& key() const { return field_->key; }
  std::string name() const { return std::string(field_->name()); }
  template <class Section>
  bool is_in() const {
    return field_->section == kSectionName<Section>;
  }
  auto operator<=>(const Setting&) const = default;  // in the table's order

 private:
  const ConfigField* field_;
};

// Problem with one value on its own (type, range, choice); empty message: none.
std::string check_field(const ConfigField& field, const ConfigValue& value);

std::string to_string(const ConfigValue& value);
// The value that `text` stands for in a field: "2e-3", "true", "sigmoid". Throws std::invalid_argument with what is
// allowed when it is of another type; check_field checks the range.
ConfigValue parse_value(const ConfigField& field, std::string_view text);

// A change of one live field between two steps.
struct LiveChange {
  int run = 0;
  Setting setting;
  ConfigValue value;
};

}  // namespace moescope
