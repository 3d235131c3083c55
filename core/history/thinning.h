// Decides which rows to drop when a history outgrows its budget.
//
// Rows are numbered in the order of their arrival (ordinal). Keeping ordinals divisible by 2^k keeps every 2^k-th row.
// Each time, the older half loses only the odd multiples of its smallest such spacing, so that after many times the
// whole past is still covered evenly (to a factor of four) instead of thinning out towards the oldest end.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

namespace moescope {

inline constexpr int kNeverDropped = 64;  // the level of ordinal 0

inline bool is_dropped(std::uint64_t ordinal, int level) {
  return std::countr_zero(ordinal) == level;
}

// The level to drop from `older`; -1: nothing there can be dropped.
template <class Row>
int finest_level(std::span<const Row> older) {
  int level = kNeverDropped;
  for (const Row& row : older) level = std::min(level, std::countr_zero(row.ordinal));
  return level == kNeverDropped ? -1 : level;
}

}  // namespace moescope
