// Rules that tie several keys of a config together; shared by validate() and the TOML reader, which knows the lines.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/config/run_config.h"

namespace moescope {

struct RuleViolation {
  std::vector<std::string> keys;  // that take part, the one to change first
  std::string message;
};
// The config's values are each within their own range.
std::vector<RuleViolation> rule_violations(const RunConfig& config);
// Of them, those of what a person does to routers and data.
void check_interventions(const RunConfig& config, std::vector<RuleViolation>& found);

// Appends the violations in which no key of `bad` takes part, at the line of the first key that has one.
void add_rule_problems(const RunConfig& config, const std::set<std::string>& bad,
                       const std::map<std::string, int>& lines, const std::string& file,
                       std::vector<ConfigProblem>& problems);

}  // namespace moescope
