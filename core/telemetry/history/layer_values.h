// The per-layer scalars of a frame: those of its routers, and those derived from its arrays.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/telemetry/frame/frame_fields.h"
#include "core/telemetry/history/metrics.h"

namespace moescope {

inline constexpr int kFirstRouterMetric = static_cast<int>(Metric::max_vio);
inline constexpr int kNumRouterMetrics = static_cast<int>(kRouterFields.size());
inline constexpr int kNumLayerMetrics = kNumMetrics - kFirstRouterMetric;  // the router's, then derived ones
static_assert(static_cast<int>(Metric::flip_rate) == kFirstRouterMetric + kNumRouterMetrics);

// Mean over the layers that have a value; NaN when one of them is not finite.
float mean_over_layers(const std::vector<RouterFrame>& routers, float RouterFrame::*member);
// Of a layer, or of the whole run; in the order of Metric, after the router's.
std::array<float, kNumLayerMetrics - kNumRouterMetrics> derived_values(const TelemetryFrame& frame, int layer,
                                                                       std::int64_t tokens);
float step_ms(const TelemetryFrame& frame);  // all its phases; kNoValue: not timed

}  // namespace moescope
