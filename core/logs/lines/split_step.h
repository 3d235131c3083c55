// Joins the lines of a step whose values are on several lines of JSON, because the program logs one value at a time:
//   {"step": 7, "layer_1/expert_0/load": 12}
//   {"step": 7, "layer_1/expert_1/load": 9}
// The loads of a layer can be used only if all its experts have one, so the lines are joined before they are read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/files/text/json_line.h"
#include "core/logs/lines/line_names.h"

namespace moescope {

class SplitStep {
 public:
  // Adds the line if it has the load of one expert, or if it has further values of the step whose lines were added.
  // Returns false for any other line, which the caller reads by itself. If is_other_step(), the caller first reads
  // text() and calls clear(). Throws Unreadable.
  bool take(const JsonFields& fields, std::string_view line, std::int64_t number, LineNames& names);
  // True if the line belongs to another step than the lines that were added, or if these are too long already.
  bool is_other_step(const JsonFields& fields, LineNames& names) const;
  bool empty() const { return text_.empty(); }
  const std::string& text() const { return text_; }
  std::int64_t line() const { return line_; }  // number of the first line that was added
  void clear() { text_.clear(); }

 private:
  std::string text_;  // the lines that were added, as one JSON object
  std::int64_t step_ = 0, line_ = 0;
};

// Returns {"loss": 2.5, "step": 7} for a line {"step": 7, "metric": "loss", "value": 2.5}; nullopt if the line has
// another form, or "name" or "key" has a name that is not known.
std::optional<std::string> named_value(const JsonFields& fields, const TagMap& tags);

}  // namespace moescope
