// Means of series with gaps.
#pragma once

#include <cmath>
#include <limits>
#include <span>

namespace moescope {

// Returns the mean of the finite values; NaN if no value is finite.
inline double mean_of_finite(std::span<const float> values) {
  double sum = 0;
  int count = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    sum += value;
    ++count;
  }
  return count ? sum / count : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace moescope
