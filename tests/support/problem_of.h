// The error message of a function call, for tests.
#pragma once

#include <stdexcept>
#include <string>

namespace moescope {

// Returns the message of the std::runtime_error that `action` throws, or "" if it throws nothing.
template <class Action>
std::string problem_of(Action action) {
  try {
    action();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return {};
}

}  // namespace moescope
