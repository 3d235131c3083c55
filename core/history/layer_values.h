// The per-layer scalars of a frame: those of its routers, and those derived from its arrays.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/frame/figures.h"
#include "core/frame/metrics.h"

namespace moescope {

inline constexpr int kFirstRouterMetric = static_cast<int>(Metric::max_vio);
inline constexpr int kNumRouterMetrics = static_cast<int>(kRouterFigures.size());
inline constexpr int kNumLayerMetrics = kNumMetrics - kFirstRouterMetric;  // the router's, then derived ones
static_assert(static_cast<int>(Metric::flip_rate) == kFirstRouterMetric + kNumRouterMetrics);

// Mean over the layers that have a value; NaN when one of them is not finite.
float mean_over_layers(const std::vector<RouterFrame>& routers, float RouterFrame::*member);
// Those after the router's, in the order of Metric.
using DerivedValues = std::array<float, kNumLayerMetrics - kNumRouterMetrics>;
// Of each of `layers`, which rise, and last of the whole run.
std::vector<DerivedValues> derived_values(const TelemetryFrame& frame, std::span<const int> layers,
                                          std::int64_t tokens);
float step_ms(const TelemetryFrame& frame);  // all its phases; kNoValue: not timed

}  // namespace moescope
