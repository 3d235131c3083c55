// What an action complains about.
#pragma once

#include <stdexcept>
#include <string>

namespace moescope {

// "": about nothing.
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
