// A whole JSON text of unknown origin, and values as JSON. For lines of logs, of which there are many: json_line.h.
#pragma once

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

namespace moescope {

// Throws BadJson: what is wrong and where, also for nesting deeper than kMaxNesting.
struct BadJson : std::runtime_error {
  using std::runtime_error::runtime_error;
};
nlohmann::json parse_json(std::string_view text);

std::string json_string(std::string_view text);  // in quotes; what is not UTF-8 is replaced
std::string json_number(double value);           // "2.5", "NaN", "-Infinity", as Python's json writes it

}  // namespace moescope
