// Lines of JSON of unknown origin, an object each.
#pragma once

#include <simdjson.h>

#include <string>
#include <string_view>

#include "core/io/json_values.h"

namespace moescope {

// Parses one line after the other, in the same memory.
class JsonLines {
 public:
  // NaN, Infinity and -Infinity, which Python writes and JSON does not have, become strings of that name; whole numbers
  // that 64 bits do not hold become floating-point numbers. What is returned holds until the next call. Throws
  // Unreadable, also for nesting deeper than kMaxNesting.
  JsonFields parse(std::string_view line);

 private:
  simdjson::error_code parse_as_it_is(std::string_view text, JsonValue& value);
  simdjson::dom::parser parser_;
  std::string padded_;  // the text, and what the parser may read behind it
};

}  // namespace moescope
