// Python's dicts as programs print them: {'loss': 2.31, 'grad_norm': nan, 'note': None}
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace moescope {

struct PythonDict {
  std::string json;      // the same as JSON: texts that are numbers ('2.31') and np.float64(2.31) are numbers
  std::size_t size = 0;  // bytes of the dict in the text
};
// The dict that a text begins with, whatever follows; nothing: it begins with none.
std::optional<PythonDict> read_python_dict(std::string_view text);

// A number as JSON, or NaN, Infinity, -Infinity (json_line.h); of "72,914" 72914. Nothing: it is none.
std::optional<std::string> json_number(std::string_view text);

}  // namespace moescope
