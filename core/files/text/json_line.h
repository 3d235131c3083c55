// Reads lines of JSON of unknown origin, one object per line.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "core/files/text/json_values.h"

namespace moescope {

// True for the beginning of an object or a list.
inline bool begins_like_json(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && (text[first] == '{' || text[first] == '[');
}

// Parses lines one after the other and reuses the memory.
class JsonLines {
 public:
  // Parses one line. What Python writes although JSON lacks it is read, too: NaN and infinities become strings of that
  // name, None is null; whole numbers that do not fit into 64 bits become floating-point numbers. The result is valid
  // until the next call. Throws Unreadable, also if the nesting is deeper than kMaxNesting.
  JsonFields parse(std::string_view line);

 private:
  simdjson::error_code parse_as_it_is(std::string_view text, JsonValue& value);
  simdjson::dom::parser parser_;
  std::string padded_;  // the text and the padding that the parser may read behind it
};

// Calls `take`, which may throw Unreadable, with each object of a text: one per line, a single one over several lines,
// or the object {"responses": [...]} for a list. Calls `refuse` with the line and the reason for others. Returns the
// number of lines.
std::int64_t read_objects(std::string_view text, const std::function<void(const JsonFields&)>& take,
                          const std::function<void(std::int64_t line, const std::string& reason)>& refuse);

struct LooseJson {
  std::string json;
  std::size_t size = 0;  // bytes of the text that were read
};
// Returns the dict of Python with which a text begins as JSON: {'loss': 2.31, 'grad_norm': nan, 'note': None}, or the
// list of its items, [(0, 12), (1, 14)]. nullopt: it begins with none.
std::optional<LooseJson> python_dict(std::string_view text);

}  // namespace moescope
