// Reads Python's dicts as programs print them: {'loss': 2.31, 'grad_norm': nan, 'note': None}
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace moescope {

struct PythonDict {
  std::string json;      // the dict as JSON; '2.31' and np.float64(2.31) become numbers
  std::size_t size = 0;  // bytes of the dict in the text
};
// Reads the dict at the beginning of a text. Returns nullopt if the text does not begin with a dict.
std::optional<PythonDict> read_python_dict(std::string_view text);

}  // namespace moescope
