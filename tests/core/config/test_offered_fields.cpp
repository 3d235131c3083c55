// The settings that a set-up offers.
#include <gtest/gtest.h>

#include "core/config/config_check.h"

namespace moescope {
namespace {

bool offers(Setting setting, const RunConfig& config) {
  return is_offered(setting.field(), config);
}

TEST(OfferedFields, FaultsAreOfferedOnlyIfTheyAreSet) {
  RunConfig config;
  for (const ConfigField& field : config_fields()) {
    const bool is_fault = field.name().starts_with("fault_");
    EXPECT_FALSE(is_fault && is_offered(field, config)) << field.key;
    EXPECT_TRUE(!is_fault || field.group == "Faults") << field.key;
  }
  config.router.fault_stale_bias = true;
  config.optimizer.fault_missing_experts = "1:0";
  EXPECT_TRUE(offers(&RouterConfig::fault_stale_bias, config));
  EXPECT_TRUE(offers(&OptimizerConfig::fault_missing_experts, config));
  EXPECT_FALSE(offers(&RouterConfig::fault_recount, config));
}

// A setting whose help begins with "Only with RULE:" is offered with that rule alone.
TEST(OfferedFields, SettingsOfABiasRuleAreOfferedWithTheirRule) {
  const ConfigField& rule = Setting(&RouterConfig::balance_rule).field();
  int settings_of_one_rule = 0;
  for (const std::string& choice : rule.choices) {
    RunConfig config;
    rule.set(config, choice);
    for (const ConfigField& field : config_fields()) {
      const std::string rule_of_field = field.help.substr(0, field.help.find(':'));
      for (const std::string& other : rule.choices) {
        if (rule_of_field != "Only with " + other) continue;
        EXPECT_EQ(is_offered(field, config), other == choice) << field.key << " with " << choice;
        ++settings_of_one_rule;
      }
    }
    EXPECT_EQ(offers(&RouterConfig::bias_update_rate, config), !by_quantiles(config.router.balance_rule)) << choice;
    EXPECT_EQ(offers(&RouterConfig::count_format, config), choice == "sign") << choice;
    EXPECT_TRUE(offers(&RouterConfig::top_k, config));
  }
  EXPECT_EQ(settings_of_one_rule, 4 * static_cast<int>(rule.choices.size()));
}

}  // namespace
}  // namespace moescope
