// Converts int, the type of shapes, to std::size_t, the type of container sizes.
#pragma once

#include <cstddef>

namespace moescope {

inline std::size_t size(int n) {
  return n;
}

}  // namespace moescope
