// TOML of unknown origin: the one place that parses it.
#pragma once

#include <toml++/toml.h>

#include <string_view>

namespace moescope {

// Throws toml::parse_error with the line and what is wrong, also for nesting deeper than kMaxNesting.
toml::table parse_toml(std::string_view text, std::string_view file_name);

}  // namespace moescope
