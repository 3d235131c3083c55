// Loads that are known up to a factor, as shares are: they are kept as counts of which the mean is kCountsOfFairShare.
#pragma once

#include <algorithm>
#include <limits>

#include "core/frame/frame.h"

namespace moescope {

inline constexpr double kCountsOfFairShare = 10'000;
// Readers set padding_fraction to it if the loads are ratios, which have no rows to pad: ImportedRun keeps it missing.
inline constexpr float kNoRows = -std::numeric_limits<float>::infinity();

// True for the loads of a log that has shares and does not say of how many tokens.
inline bool are_shares(const RunInfo& run, const RouterFrame& router) {
  return run_origin(run) == RunOrigin::log && is_missing(router.padding_fraction) &&
         std::ranges::any_of(router.tokens_per_expert, [](auto count) { return count > 0; });
}

}  // namespace moescope
