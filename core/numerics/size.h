// Shapes are given as int, containers count in std::size_t.
#pragma once

#include <cstddef>

namespace moescope {

inline std::size_t size(int n) {
  return static_cast<std::size_t>(n);
}

}  // namespace moescope
