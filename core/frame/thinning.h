// Decides which rows to drop when a history exceeds its budget.
//
// Rows are numbered in the order of arrival (ordinal). Keeping ordinals divisible by 2^k keeps every 2^k-th row. Each
// time, the older half loses only the odd multiples of its smallest such spacing. The whole past therefore stays evenly
// covered (to a factor of four), rather than becoming sparser towards the oldest rows.
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

// Returns the level to drop from `older`; -1 if no row can be dropped.
template <class Row>
int finest_level(std::span<const Row> older) {
  int level = kNeverDropped;
  for (const Row& row : older) level = std::min(level, std::countr_zero(row.ordinal));
  return level == kNeverDropped ? -1 : level;
}

}  // namespace moescope
