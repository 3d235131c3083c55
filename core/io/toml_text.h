// TOML that somebody else wrote: the one place that parses it.
#pragma once

#include <toml++/toml.h>

#include <string_view>

namespace moescope {

// Throws toml::parse_error, with the line, what is wrong with it, also where it is nested deeper than kMostNesting.
toml::table parse_toml(std::string_view text, std::string_view file_name);

}  // namespace moescope
