// Whether the loss of a run falls: the mean of its newest steps against that of as many steps some time before.
#pragma once

#include <cstdint>

#include "core/history/history.h"

namespace moescope {

inline constexpr std::int64_t kTrendLeastSteps = 40;

struct LossTrend {
  enum Direction { too_early, falling, flat, rising, lost };
  Direction direction = too_early;
  std::int64_t steps = 0;  // of the run, up to the step
  std::int64_t span = 0;   // in which it changed
  double change = 0;       // how much; where it is flat, what would have been seen
};
LossTrend loss_trend(const History& history, std::int64_t step);

}  // namespace moescope
