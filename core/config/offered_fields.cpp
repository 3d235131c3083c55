#include "core/config/offered_fields.h"

#include <algorithm>
#include <vector>

namespace moescope {
namespace {

// The rules that read a setting; other settings do not depend on the rule.
struct RuleSetting {
  Setting setting;
  std::vector<BalanceRule> rules;
};

const std::vector<RuleSetting>& rule_settings() {
  using enum BalanceRule;
  static const std::vector<RuleSetting> settings = {
      {&RouterConfig::bias_update_rate, {sign, proportional, smebu}},
      {&RouterConfig::bias_soft_clamp, {smebu}},
      {&RouterConfig::bias_momentum, {smebu}},
      {&RouterConfig::sequence_strength, {quantile_sequence}},
      {&RouterConfig::quantile_ema, {quantile_microbatch}},
      {&RouterConfig::count_format, {sign}},
  };
  return settings;
}

}  // namespace

bool is_offered(const ConfigField& field, const RunConfig& config) {
  if (field.group == "Faults") return field.get(config) != field.get(default_config());
  const auto found = std::ranges::find(rule_settings(), Setting(field), &RuleSetting::setting);
  return found == rule_settings().end() || std::ranges::count(found->rules, config.router.balance_rule) > 0;
}

}  // namespace moescope
