// Which rows go when a history outgrows its budget.
//
// Rows are numbered in the order of their arrival (ordinal). Keeping those whose ordinal divides by 2^k keeps every
// 2^k-th. The older half loses the odd multiples of its smallest such spacing, and no more: repeated, the whole past
// stays covered evenly (to a factor of four) instead of fading away at its old end.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

namespace moescope {

inline constexpr int kNeverDropped = 64;  // of ordinal 0

inline bool is_dropped(std::uint64_t ordinal, int level) {
  return std::countr_zero(ordinal) == level;
}

// The level to drop of `older`; -1: nothing there can go.
template <class Row>
int finest_level(std::span<const Row> older) {
  int level = kNeverDropped;
  for (const Row& row : older) level = std::min(level, std::countr_zero(row.ordinal));
  return level == kNeverDropped ? -1 : level;
}

}  // namespace moescope
