// Functions that build the tables of fields: field<&RouterConfig::top_k>("top_k", "Experts per token", ...) makes the
// entry of one member, with its section, its type and the names of an enumeration.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/config/config_field.h"

namespace moescope {

// The fields of each section, in the order of the table.
std::vector<ConfigField> run_fields();
std::vector<ConfigField> model_fields();
std::vector<ConfigField> router_fields();
std::vector<ConfigField> optimizer_fields();
std::vector<ConfigField> precision_fields();
std::vector<ConfigField> data_fields();
std::vector<ConfigField> parallel_fields();
std::vector<ConfigField> telemetry_fields();

// Names of an enumeration's values, in the order of the values.
template <class E>
constexpr std::array<const char*, 0> kChoices{};

template <class E>
const std::vector<std::string>& choices_of() {
  static const std::vector<std::string> names(kChoices<E>.begin(), kChoices<E>.end());
  return names;
}
template <>
inline constexpr std::array<const char*, 2> kChoices<StoredFormat>{"fp32", "bf16"};
template <>
const std::vector<std::string>& choices_of<Recipe>();

// Format that replaces the one of the recipe; nullopt: the recipe's own.
using Override = std::optional<OperandFormat>;
inline constexpr const char* kNoOverride = "none";
template <>
const std::vector<std::string>& choices_of<Override>();

template <class T>
inline constexpr bool kHasChoices = std::is_enum_v<T> || std::is_same_v<T, Override>;
template <class T>
inline constexpr bool kIsConfigValue =
    std::is_same_v<T, bool> || std::is_same_v<T, double> || std::is_same_v<T, std::string>;

template <class T>
ConfigValue to_value(const T& member) {
  if constexpr (std::is_same_v<T, Override>)
    return std::string(member ? find_format(*member)->name : kNoOverride);
  else if constexpr (std::is_enum_v<T>)
    return choices_of<T>()[static_cast<std::size_t>(member)];
  else if constexpr (kIsConfigValue<T>)
    return member;
  else
    return static_cast<std::int64_t>(member);
}

template <class T>
void from_value(T& member, const ConfigValue& value) {
  if constexpr (std::is_same_v<T, Override>) {
    const NamedFormat* named = find_format(std::get<std::string>(value));
    member = named ? std::optional(named->format) : std::nullopt;
  } else if constexpr (std::is_enum_v<T>) {
    const auto& name = std::get<std::string>(value);
    const std::vector<std::string>& names = choices_of<T>();
    for (std::size_t i = 0; i < names.size(); ++i)
      if (name == names[i]) member = static_cast<T>(i);
  } else if constexpr (kIsConfigValue<T>) {
    member = std::get<T>(value);
  } else {
    member = static_cast<T>(std::get<std::int64_t>(value));
  }
}

template <auto Member>
struct MemberOf;
template <class S, class T, T S::*Member>
struct MemberOf<Member> {
  using Section = S;
  using Type = T;
  static auto& in(auto& config) { return section_of<Section>(config).*Member; }
};

// Makes the field of a flag, a text or an enumeration.
template <auto Member>
ConfigField field(const char* name, const char* label, const char* help) {
  using Of = MemberOf<Member>;
  ConfigField f;
  f.section = kSectionName<typename Of::Section>;
  f.key = std::string(f.section) + (f.section.empty() ? "" : ".") + name;
  f.label = label;
  f.help = help;
  f.get = [](const RunConfig& config) { return to_value(Of::in(config)); };
  f.set = [](RunConfig& config, const ConfigValue& value) { from_value(Of::in(config), value); };
  f.member = [](const RunConfig& config) -> const void* { return &Of::in(config); };
  if constexpr (kHasChoices<typename Of::Type>) f.choices = choices_of<typename Of::Type>();
  return f;
}

struct Range {
  double min = 0, max = 0;
};

// Makes the field of a number.
template <auto Member>
ConfigField field(const char* name, const char* label, const char* unit, Range range, const char* help) {
  ConfigField f = field<Member>(name, label, help);
  f.unit = unit;
  f.min = range.min;
  f.max = range.max;
  return f;
}

inline ConfigField live(ConfigField f) {
  f.live = true;
  return f;
}

// Fields, each with the title of its group in the form.
struct FieldTable {
  std::vector<ConfigField> fields;
  std::string title;

  void group(const char* name) { title = name; }
  void add(ConfigField f) {
    f.group = title;
    fields.push_back(std::move(f));
  }
};

}  // namespace moescope
