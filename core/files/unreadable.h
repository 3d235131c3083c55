// Error in a line of a log or in a record. The reader catches it, counts the line and goes on.
#pragma once

#include <stdexcept>

namespace moescope {

struct Unreadable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace moescope
