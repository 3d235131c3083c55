// Per-layer scalars of a frame: figures of its routers, and figures derived from its arrays.
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
inline constexpr int kNumLayerMetrics = kNumMetrics - kFirstRouterMetric;  // router figures, then derived figures
static_assert(static_cast<int>(Metric::flip_rate) == kFirstRouterMetric + kNumRouterMetrics);

// Returns the mean over the layers that have a value; NaN if a layer's value is not finite.
float mean_over_layers(const std::vector<RouterFrame>& routers, float RouterFrame::*member);
// Figures derived from arrays, in the order of Metric, beginning after the router figures.
using DerivedValues = std::array<float, kNumLayerMetrics - kNumRouterMetrics>;
// Returns the derived figures of each of `layers`, which must rise; the last entry is for the whole run.
std::vector<DerivedValues> derived_values(const TelemetryFrame& frame, std::span<const int> layers,
                                          std::int64_t tokens);
float step_ms(const TelemetryFrame& frame);  // sum of all phases; kNoValue: not timed

}  // namespace moescope
