// Reads a whole JSON text of unknown origin, and writes values as JSON. json_line.h is faster for logs with many lines.
#pragma once

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

namespace moescope {

// Error of parse_json(): says what is wrong and where. Also thrown if the nesting is deeper than kMaxNesting.
struct BadJson : std::runtime_error {
  using std::runtime_error::runtime_error;
};
nlohmann::json parse_json(std::string_view text);
nlohmann::json parse_json(std::string_view text, const std::string& path);  // throws std::runtime_error "PATH: why"

// Returns a message of the JSON library, or a text with such messages, without the library's own error numbers:
// "[json.exception.parse_error.101] parse error at ..." becomes "parse error at ...".
std::string without_json_error_numbers(std::string text);

std::string json_text(const nlohmann::json& json);  // in ASCII, on one line; empty for null
std::string json_string(std::string_view text);     // quoted; invalid UTF-8 is replaced
std::string json_number(double value);              // "2.5", "NaN", "-Infinity", as Python's json writes it

}  // namespace moescope
