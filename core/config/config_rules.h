// Rules that involve several keys of a config, for validate() and for the TOML reader, which knows the line numbers.
// Conversion of values to and from TOML.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/config/config_check.h"
#include "core/config/config_field.h"
#include "core/files/text/toml_section.h"

namespace moescope {

// Appends the violations of rules that involve no setting of `bad`, at the line of their first setting that has a line.
void add_rule_problems(const RunConfig& config, const std::set<Setting>& bad, const std::map<Setting, int>& lines,
                       const std::string& file, std::vector<ConfigProblem>& problems);

std::string toml_value(const ConfigValue& value);  // texts in quotes, doubles with a decimal point
// Reads the value of a setting. Returns why it is not allowed; empty if it was read. A whole number becomes a double if
// the field needs one.
std::string read_value(const toml::node& node, const ConfigField& field, ConfigValue& value);

}  // namespace moescope
