// Reads lines of JSON of unknown origin, one object per line.
#pragma once

#include <simdjson.h>

#include <string>
#include <string_view>

#include "core/files/text/json_values.h"

namespace moescope {

// Parses lines one after the other and reuses the memory.
class JsonLines {
 public:
  // Parses one line. NaN, Infinity and -Infinity, which Python writes although JSON lacks them, become strings of that
  // name; whole numbers that do not fit into 64 bits become floating-point numbers. The result is valid until the next
  // call. Throws Unreadable, also if the nesting is deeper than kMaxNesting.
  JsonFields parse(std::string_view line);

 private:
  simdjson::error_code parse_as_it_is(std::string_view text, JsonValue& value);
  simdjson::dom::parser parser_;
  std::string padded_;  // the text and the padding that the parser may read behind it
};

}  // namespace moescope
