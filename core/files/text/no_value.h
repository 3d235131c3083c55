// Stands for a missing number: not computed at this step, absent from an imported log, or null in JSON.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

namespace moescope {

// kNoValue is a NaN with a payload of its own (0xda7a), so that a loss that became NaN by arithmetic is not taken for a
// missing loss.
inline constexpr std::uint32_t kNoValueBits = 0x7fc0da7au;
inline constexpr float kNoValue = std::bit_cast<float>(kNoValueBits);
constexpr bool is_missing(float value) {
  return std::bit_cast<std::uint32_t>(value) == kNoValueBits;
}

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
