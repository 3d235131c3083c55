// The marker of a live change: which setting got which value, and the sentence that the timeline shows of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/frame/frame.h"

namespace moescope {

inline constexpr const char* kChangeKind = "change";

// "router.bias_update_rate 0.001 -> 0.01"; an empty value is "none", and a long old value is cut short.
// `for_all_runs`: says so, of the mixture of several runs.
std::string change_text(std::string_view key, const std::string& before, const std::string& value,
                        bool for_all_runs = false);
Marker change_marker(int run, std::int64_t step, std::string key, const std::string& before, std::string value,
                     bool for_all_runs = false);

}  // namespace moescope
