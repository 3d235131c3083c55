// The value of a setting of a run at a step: from its config at the start and the live changes since, which are
// markers. An imported run has no config, but its log may begin with a line of settings; those that have a key here are
// found under the names that programs give them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/history/history.h"

namespace moescope {

// "0.001", "sigmoid", texts without quotes; nothing: neither the run's config nor its log has such a key
// ("router.top_k").
std::optional<std::string> setting_at(const History& history, std::string_view key, std::int64_t step);
std::optional<std::string> setting_at_start(const History& history, std::string_view key);  // before any change
std::optional<double> number_at(const History& history, std::string_view key, std::int64_t step);

// The settings of an imported run, from the first line of its log: by key, as text; empty: the log has none.
using LogSettings = std::map<std::string, std::string>;
LogSettings log_settings(const History& history);

// One of a run.
struct StatedSetting {
  std::string name, value;  // as its log has them; of a config the name without its section
};
// Those that decide how a router balances and learns, as far as they are known, whether the run has a config or a log's
// settings: {"bias_update_rate", "0.001"}, {"precision", "bf16"}.
std::vector<StatedSetting> main_settings(const History& history, std::int64_t step);
// "router.bias_update_rate" is found as bias_update_rate, load_balance_coeff, ...; nothing: the log does not have it.
std::optional<StatedSetting> find_setting(const LogSettings& settings, std::string_view key);

}  // namespace moescope
