// Loads that are known up to a factor, as shares are: they are kept as counts of which the mean is kCountsOfFairShare.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "core/frame/frame.h"

namespace moescope {

inline constexpr double kCountsOfFairShare = 10'000, kRatioRounding = 0.01;  // how exact their mean is

// True if counts of this sum may be ratios. Such a sum of tokens is possible, but rare.
inline bool may_be_ratios(std::uint64_t sum, std::size_t experts) {
  const double of_ratios = kCountsOfFairShare * static_cast<double>(experts);
  return experts > 0 && std::abs(static_cast<double>(sum) - of_ratios) <= kRatioRounding * of_ratios;
}

// True for the loads of a log that has shares and does not say of how many tokens.
inline bool are_shares(const RunInfo& run, const RouterFrame& router) {
  const auto& counts = router.tokens_per_expert;
  const std::uint64_t sum = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  const auto tokens = static_cast<std::uint64_t>(run.tokens_per_step);
  const bool is_of_tokens = tokens > 0 && sum % tokens == 0 && sum / tokens <= counts.size();
  return run_origin(run) == RunOrigin::log && !is_of_tokens && may_be_ratios(sum, counts.size());
}

}  // namespace moescope
