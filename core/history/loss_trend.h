// Decides whether the loss of a run falls: compares the mean of its newest steps with the mean of as many earlier
// steps.
#pragma once

#include <cstdint>

#include "core/history/history.h"

namespace moescope {

inline constexpr std::int64_t kTrendLeastSteps = 40;

struct LossTrend {
  enum Direction { too_early, falling, flat, rising, lost };  // lost: the loss is not finite
  Direction direction = too_early;
  std::int64_t steps = 0;  // steps with a loss among the newest 250 up to `step`
  std::int64_t span = 0;   // steps over which `change` was measured
  double change = 0;       // change of the loss; flat: smallest change that would have been detected
};
LossTrend loss_trend(const History& history, std::int64_t step);

}  // namespace moescope
