// The error message of an action.
#pragma once

#include <stdexcept>
#include <string>

namespace moescope {

// Returns "" if the action throws nothing.
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
