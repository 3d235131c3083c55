// A whole JSON text of unknown origin. For lines of logs, of which there are many: json_line.h.
#pragma once

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>

namespace moescope {

// Throws BadJson: what is wrong and where, also for nesting deeper than kMaxNesting.
struct BadJson : std::runtime_error {
  using std::runtime_error::runtime_error;
};
nlohmann::json parse_json(std::string_view text);

}  // namespace moescope
