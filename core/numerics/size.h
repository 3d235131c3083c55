// Converts between int, the type of shapes and indices, and std::size_t, the type of container sizes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>

namespace moescope {

inline std::size_t size(int n) {
  return n;
}

// Returns the index of the first element whose projection equals `value`; -1 if there is none.
template <class Projection = std::identity>
int index_in(const auto& range, const auto& value, Projection projection = {}) {
  const auto found = std::ranges::find(range, value, projection);
  return found == std::ranges::end(range) ? -1 : static_cast<int>(found - std::ranges::begin(range));
}

}  // namespace moescope
