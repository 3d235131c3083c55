// Joining the lanes of several vectors: one result for each vector instead of one for each lane.
#pragma once

#include "core/numerics/lanes.h"

namespace moescope {

// Joins the quarters of four vectors: four values of each.
template <class T, class Join>
MOESCOPE_INLINE Lanes<T> joined_quarters(const Lanes<T> (&v)[4], Join join) {
  const auto halves = [&](Lanes<T> a, Lanes<T> b) __attribute__((always_inline)) {
    return join(__builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23),
                __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31));
  };
  const Lanes<T> ab = halves(v[0], v[1]), cd = halves(v[2], v[3]);
  return join(__builtin_shufflevector(ab, cd, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27),
              __builtin_shufflevector(ab, cd, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31));
}

// Joins every two neighbours of 32.
template <class T, class Join>
MOESCOPE_INLINE Lanes<T> joined_pairs(Lanes<T> a, Lanes<T> b, Join join) {
  return join(__builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30),
              __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31));
}

// What is left of sixteen vectors, of which `quarters` holds four values each.
template <class T, class Join>
MOESCOPE_INLINE Lanes<T> joined_sixteen(const T* quarters, Join join) {
  constexpr int kWidth = kLanes<T>;
  return joined_pairs<T>(joined_pairs<T>(load(quarters), load(quarters + kWidth), join),
                         joined_pairs<T>(load(quarters + 2 * kWidth), load(quarters + 3 * kWidth), join), join);
}

}  // namespace moescope
