// Functions for tests of configs.
#pragma once

#include <string>
#include <vector>

#include "core/config/config_check.h"
#include "core/config/config_field.h"
#include "core/config/run_config.h"

namespace moescope {

// Returns the problems as text, one line each.
inline std::string all_text(const std::vector<ConfigProblem>& problems) {
  std::string text;
  for (const ConfigProblem& problem : problems) text += problem.text() + '\n';
  return text;
}

// Returns a value of the field's type and range that differs from the default.
inline ConfigValue other_value(const ConfigField& field) {
  const ConfigValue usual = field.get(RunConfig{});
  if (const bool* flag = std::get_if<bool>(&usual)) return !*flag;
  if (!field.choices.empty())
    return field.choices.back() == std::get<std::string>(usual) ? field.choices.front() : field.choices.back();
  if (field.key == "parallel.placement") return std::string("1:0,1;2:1,0");
  if (std::holds_alternative<std::string>(usual)) return std::string("a-b_c.d+1");
  if (std::holds_alternative<std::int64_t>(usual)) return static_cast<std::int64_t>(field.max);
  return field.min + (field.max - field.min) / 3;
}

}  // namespace moescope
