// The value of a setting of a run at a step: from its config at the start and the live changes since, which are
// markers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/telemetry/history/history.h"

namespace moescope {

// "0.001", "sigmoid", texts without quotes; nothing: the run has no config (an imported log) or no such key
// ("router.top_k").
std::optional<std::string> setting_at(const History& history, std::string_view key, std::int64_t step);
std::optional<double> number_at(const History& history, std::string_view key, std::int64_t step);

}  // namespace moescope
