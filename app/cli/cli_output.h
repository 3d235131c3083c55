// An output file that cannot be written, unlike wrong input: exit status 1 rather than 2.
#pragma once

#include <stdexcept>

namespace moescope {

struct OutputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace moescope
