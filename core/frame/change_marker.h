// The marker of a live change: which setting got which value, and the sentence that the timeline shows of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/frame/frame.h"

namespace moescope {

inline constexpr const char* kChangeKind = "change";

// "router.bias_update_rate 0.001 -> 0.01"; an empty value is "none", and a long one of before is cut short. Of the
// mixture of several runs, with a word that it is for all.
std::string change_text(std::string_view key, const std::string& before, const std::string& value,
                        bool for_all_runs = false);
Marker change_marker(int run, std::int64_t step, std::string key, const std::string& before, std::string value,
                     bool for_all_runs = false);

// Key and value from the sentence, which is all that recordings of formats 1 to 5 and logs of that time have of a
// change. A sentence that names no setting leaves them empty; what an early version cut short ends in "...".
void read_change_text(Marker& marker);

}  // namespace moescope
