// Joining the lanes of several vectors: one result for each vector instead of one for each lane.
#pragma once

#include "core/numerics/kernels/lanes.h"

namespace moescope {

template <class T>
struct FourOf {
  typedef T type __attribute__((vector_size(4 * sizeof(T))));
};
template <class T>
using Four = typename FourOf<T>::type;

// Joins the quarters of four vectors: a quarter of the result is what is left of each, in order, of a quarter of them
// all. `join_first`: how single lanes meet.
template <class T, class First, class Join>
MOESCOPE_INLINE Lanes<T> joined_quarters(const Lanes<T> (&v)[4], First join_first, Join join) {
  const auto halves = [&](Lanes<T> a, Lanes<T> b) __attribute__((always_inline)) {
    return join_first(__builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29),
                      __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31));
  };
  const Lanes<T> ab = halves(v[0], v[1]), cd = halves(v[2], v[3]);
  return join(__builtin_shufflevector(ab, cd, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29),
              __builtin_shufflevector(ab, cd, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31));
}

template <class T, class Join>
MOESCOPE_INLINE Lanes<T> joined_quarters(const Lanes<T> (&v)[4], Join join) {
  return joined_quarters<T>(v, join, join);
}

// Joins each of four vectors to one value.
template <class T, class Join>
MOESCOPE_INLINE Four<T> joined_four(const Lanes<T> (&v)[4], Join join) {
  const Lanes<T> quarters = joined_quarters<T>(v, join);
  const auto half = join(__builtin_shufflevector(quarters, quarters, 0, 1, 2, 3, 4, 5, 6, 7),
                         __builtin_shufflevector(quarters, quarters, 8, 9, 10, 11, 12, 13, 14, 15));
  return join(__builtin_shufflevector(half, half, 0, 1, 2, 3), __builtin_shufflevector(half, half, 4, 5, 6, 7));
}

// What is left of sixteen vectors, of which `quarters` holds four values each.
template <class T, class Join>
MOESCOPE_INLINE Lanes<T> joined_sixteen(const T* quarters, Join join) {
  constexpr int kWidth = kLanes<T>;
  const auto pairs = [&](Lanes<T> a, Lanes<T> b) __attribute__((always_inline)) {
    return join(__builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23),
                __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31));
  };
  const Lanes<T> ab = pairs(load(quarters), load(quarters + kWidth));
  const Lanes<T> cd = pairs(load(quarters + 2 * kWidth), load(quarters + 3 * kWidth));
  return join(__builtin_shufflevector(ab, cd, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27),
              __builtin_shufflevector(ab, cd, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31));
}

}  // namespace moescope
