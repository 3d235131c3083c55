// Rotary position embedding (Su et al. 2021): each pair (a, b) of a head's dimensions becomes (a cos - b sin, a sin + b
// cos), with an angle for each position and pair.
#pragma once

#include <cassert>
#include <span>
#include <vector>

#include "core/numerics/elementary.h"
#include "core/numerics/matrix.h"

namespace moescope {

template <class T>
class Rope {
 public:
  // Computes tables for the positions [first, first + count): cos and sin of angle(position, pair), in radians, times
  // `factor`; computed in double and rounded once.
  template <class Angle>
  Rope(Index first, Index count, Index pairs, const Angle& angle, double factor = 1) : first_(first), pairs_(pairs) {
    for (Index position = first; position < first + count; ++position)
      for (Index pair = 0; pair < pairs; ++pair) {
        const double radians = angle(position, pair);
        cos_.push_back(static_cast<T>(ordered_cos(radians) * factor));
        sin_.push_back(static_cast<T>(ordered_sin(radians) * factor));
      }
  }
  // Angles position * theta^(-2j/dim) for pair j, positions from 0 on. `dim` must be even.
  static Rope plain(Index positions, Index dim, double theta) {
    return {0, positions, dim / 2,
            [=](Index position, Index pair) { return position * ordered_pow(theta, -2.0 * pair / dim); }};
  }

  // Rotates the pairs at the beginning of `x`, values of the token at `position`, in place. The dimensions of a pair
  // are neighbours if `interleaved`, as in DeepSeek-V3, otherwise as many dimensions apart as there are pairs.
  void apply(std::span<T> x, Index position, bool interleaved = true) const { rotate(x, position, false, interleaved); }
  // Rotates interleaved values back. This is the gradient of apply().
  void apply_back(std::span<T> x, Index position) const { rotate(x, position, true, true); }

 private:
  void rotate(std::span<T> x, Index position, bool back, bool interleaved) const {
    assert(std::ssize(x) >= 2 * pairs_);
    const T* cos = cos_.data() + (position - first_) * pairs_;
    const T* sin = sin_.data() + (position - first_) * pairs_;
    const Index step = interleaved ? 2 : 1, distance = interleaved ? 1 : pairs_;
    for (Index j = 0; j < pairs_; ++j) {
      T &first = x[j * step], &second = x[j * step + distance];
      const T a = first, b = second, s = back ? -sin[j] : sin[j];
      first = a * cos[j] - b * s;
      second = a * s + b * cos[j];
    }
  }

  Index first_, pairs_;
  std::vector<T> cos_, sin_;  // [count, pairs]
};

}  // namespace moescope
