// The table of fields. Keys, ranges, units and meanings of settings are declared only here; the TOML reader, the
// validator, the set-up form, live changes and --help read them.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <variant>
#include <vector>

#include "core/config/run_config.h"

namespace moescope {

using ConfigValue = std::variant<bool, std::int64_t, double, std::string>;

// A key of the config. Values of enumerations are strings out of `choices`.
struct ConfigField {
  std::string key;                   // "router.top_k"
  std::string_view section;          // "router"; empty if the key has no section
  std::string group;                 // title of the group in the form: "Router"
  std::string label;                 // "Experts per token"
  std::string unit;                  // "experts", "tokens", "steps", "" for none
  std::string help;                  // its effect and good values
  double min = 0, max = 0;           // inclusive; for numbers only
  std::vector<std::string> choices;  // only for strings with a fixed set of values
  bool live = false;                 // may change between two steps of a training
  bool derived = false;              // set() sets other settings, get() recognises them; not stored in files
  ConfigValue (*get)(const RunConfig&) = nullptr;
  void (*set)(RunConfig&, const ConfigValue&) = nullptr;  // the value must have the field's type and pass check_field
  const void* (*member)(const RunConfig&) = nullptr;      // the member that get() reads; nullptr if derived

  std::string_view name() const {  // the key without its section
    return std::string_view(key).substr(section.empty() ? 0 : section.size() + 1);
  }
};

std::span<const ConfigField> config_fields();
const ConfigField* find_field(std::string_view key);  // nullptr if there is no such key
std::string nearest_key(std::string_view key);        // the known key with the most similar spelling
const RunConfig& default_config();
// Returns the field of a member of default_config(). There must be one.
const ConfigField& field_of_member(const void* member);

// The name of a section in TOML; empty for the keys without a section.
template <class Section>
inline constexpr std::string_view kSectionName = std::is_same_v<Section, ModelConfig>       ? "model"
                                                 : std::is_same_v<Section, RouterConfig>    ? "router"
                                                 : std::is_same_v<Section, OptimizerConfig> ? "optimizer"
                                                 : std::is_same_v<Section, PrecisionConfig> ? "precision"
                                                 : std::is_same_v<Section, DataConfig>      ? "data"
                                                 : std::is_same_v<Section, ParallelConfig>  ? "parallel"
                                                 : std::is_same_v<Section, TelemetryConfig> ? "telemetry"
                                                                                            : "";

// Returns a reference to a section of `config`, a const or non-const RunConfig.
template <class Section>
auto& section_of(auto& config) {
  using Place = std::conditional_t<std::is_const_v<std::remove_reference_t<decltype(config)>>, const Section, Section>;
  return std::get<Place&>(std::tie(config, config.model, config.router, config.optimizer, config.precision, config.data,
                                   config.parallel, config.telemetry));
}

// One setting, named by its member of the config: Setting(&RouterConfig::top_k).key() is "router.top_k".
class Setting {
 public:
  template <class Section, class T>
    requires(kSectionName<T>.empty())
  Setting(T Section::*member) {
    field_ = &field_of_member(&(section_of<Section>(default_config()).*member));
  }
  Setting(const ConfigField& field) : field_(&field) {}  // must be in the table

  const ConfigField& field() const { return *field_; }
  const std::string& key() const { return field_->key; }
  std::string name() const { return std::string(field_->name()); }
  template <class Section>
  bool is_in() const {
    return field_->section == kSectionName<Section>;
  }
  auto operator<=>(const Setting&) const = default;  // order of the table

 private:
  const ConfigField* field_;
};

// Checks a value on its own (type, range, choice) and returns the problem; empty if there is none.
std::string check_field(const ConfigField& field, const ConfigValue& value);

std::string allowed_text(const ConfigField& field);  // "1 to 64 experts", "sigmoid | softmax", "text"
std::string to_string(const ConfigValue& value);
// Parses a value of a field: "2e-3", "true", "sigmoid". Throws std::invalid_argument with the problem of check_field()
// if the text has another type or the value is not allowed.
ConfigValue parse_value(const ConfigField& field, std::string_view text);

// A change of one live field between two steps.
struct LiveChange {
  int run = 0;
  Setting setting;
  ConfigValue value;
};

}  // namespace moescope
