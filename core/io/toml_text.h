// TOML of unknown origin: the one place that parses it.
#pragma once

#include <toml++/toml.h>

#include <string>
#include <string_view>

namespace moescope {

// Throws toml::parse_error with the line and what is wrong, also for keys of more than 16 parts and values nested more
// than 256 deep.
toml::table parse_toml(std::string_view text, std::string_view file_name);

// The comment that a file begins with, without its signs.
std::string leading_comment(std::string_view text);

}  // namespace moescope
