// Parses TOML of unknown origin. No other file calls the TOML parser.
#pragma once

#include <toml++/toml.h>

#include <string>
#include <string_view>

namespace moescope {

// Throws toml::parse_error with the line and the reason, also if a key has more than 16 parts or values are nested more
// than 256 deep.
toml::table parse_toml(std::string_view text, std::string_view file_name);

// Returns the comment at the beginning of a file, without the comment signs.
std::string leading_comment(std::string_view text);

}  // namespace moescope
