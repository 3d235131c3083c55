// Loads that are known up to a factor, as shares are: they are kept as counts of which the mean is kCountsOfFairShare.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace moescope {

inline constexpr double kCountsOfFairShare = 10'000, kRatioRounding = 0.01;  // how exact their mean is

// True if counts of this sum may be ratios. Such a sum of tokens is possible, but rare.
inline bool may_be_ratios(std::uint64_t sum, std::size_t experts) {
  const double of_ratios = kCountsOfFairShare * static_cast<double>(experts);
  return experts > 0 && std::abs(static_cast<double>(sum) - of_ratios) <= kRatioRounding * of_ratios;
}

}  // namespace moescope
