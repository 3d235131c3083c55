// Messages of the JSON library for users.
#pragma once

#include <string>

namespace moescope {

// Returns a message of the JSON library, or a text with such messages, without the library's own error numbers:
// "[json.exception.parse_error.101] parse error at ..." becomes "parse error at ...".
std::string without_json_error_numbers(std::string text);

}  // namespace moescope
