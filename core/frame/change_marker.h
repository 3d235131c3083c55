// The marker of a live change: the setting, its new value, and the sentence that the timeline shows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/frame/frame.h"

namespace moescope {

inline constexpr const char* kChangeKind = "change";
// A run whose loads were found by the shape of their values alone: "loads assumed from `NAME`: confirm".
inline constexpr const char* kAssumptionMarker = "assumption";

// Returns "router.bias_update_rate 0.001 -> 0.01". An empty value becomes "none", and a long old value is shortened.
// `for_all_runs` appends that the change applies to all runs, as a change of the mixture does.
std::string change_text(std::string_view key, const std::string& before, const std::string& value,
                        bool for_all_runs = false);
Marker change_marker(int run, std::int64_t step, std::string key, const std::string& before, std::string value,
                     bool for_all_runs = false);

}  // namespace moescope
