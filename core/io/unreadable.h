// What is wrong with a line of a log, or a record; the reader catches it, counts the line and goes on.
#pragma once

#include <stdexcept>

namespace moescope {

struct Unreadable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace moescope
