// The types of indices: int for shapes and identities, Index for elements of matrices; and conversions to them.
#pragma once

#include <algorithm>
#include <cassert>
#include <concepts>
#include <cstddef>
#include <functional>
#include <iterator>
#include <utility>

namespace moescope {

using Index = std::ptrdiff_t;

inline std::size_t size(int n) {
  return n;
}

// Returns a size, a difference of iterators or a wider integer as int, in which it must fit.
constexpr int to_int(std::integral auto value) {
  assert(std::in_range<int>(value));
  return static_cast<int>(value);
}

// Returns the index of the first element whose projection equals `value`; -1 if there is none.
template <class Projection = std::identity>
int index_in(const auto& range, const auto& value, Projection projection = {}) {
  const auto found = std::ranges::find(range, value, projection);
  return found == std::ranges::end(range) ? -1 : to_int(found - std::ranges::begin(range));
}

}  // namespace moescope
