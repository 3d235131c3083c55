// Decides whether the loss of a run falls: compares the median of its newest losses with the median of as many earlier
// ones, so that one noisy step does not decide.
#pragma once

#include <cstdint>

#include "core/recording/history/history.h"

namespace moescope {

inline constexpr std::int64_t kTrendLeastSteps = 40;

struct LossTrend {
  // lost: the loss is NaN or infinite, or logged as 0 beside such a gradient; zero: it is exactly 0 otherwise, which no
  // cross-entropy is.
  enum Direction { too_early, falling, flat, rising, lost, zero, unlogged };  // unlogged: the newest steps have no loss
  Direction direction = too_early;
  std::int64_t steps = 0;         // losses that were read, at most 250, up to `step`
  std::int64_t newest_step = -1;  // step of the newest loss; -1: none
  std::int64_t span = 0;          // steps between the two medians whose difference is `change`
  std::int64_t window = 0;        // losses of each of them
  double change = 0;              // change of the loss; flat: smallest change that would have been detected
};
LossTrend loss_trend(const History& history, std::int64_t step);

}  // namespace moescope
