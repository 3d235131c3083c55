// A step whose values are on several lines of JSON, as programs write it that log one value at a time:
//   {"step": 7, "layer_1/expert_0/load": 12}
//   {"step": 7, "layer_1/expert_1/load": 9}
// The loads of a layer are counts only if all its experts have one, so the lines are joined before they are read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/io/json_line.h"
#include "core/logs/lines/line_names.h"

namespace moescope {

class SplitStep {
 public:
  // Returns true if it took the line, which has the load of one expert or further values of the step that it holds.
  // Otherwise, and before a line of another step, the caller reads text() and calls clear(). Throws Unreadable.
  bool take(const JsonFields& fields, std::string_view line, std::int64_t number, LineNames& names);
  // True if the line, which take() would take, belongs to another step.
  bool is_other_step(const JsonFields& fields, LineNames& names) const;
  bool empty() const { return text_.empty(); }
  const std::string& text() const { return text_; }
  std::int64_t line() const { return line_; }  // number of its first line
  void clear() { text_.clear(); }

 private:
  std::string text_;  // one object
  std::int64_t step_ = 0, line_ = 0;
};

// Returns {"step": 7, "loss": 2.5} for a line {"step": 7, "metric": "loss", "value": 2.5}, if the name is known.
std::optional<std::string> named_value(const JsonFields& fields, const TagMap& tags);

}  // namespace moescope
