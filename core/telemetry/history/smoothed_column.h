// Incremental smoothing of one scalar: new steps continue from the last average.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/telemetry/frame/metrics.h"

namespace moescope {

// An exponential moving average of a column at each of its newest rows, kNoValue where the row has no finite value.
struct SmoothedColumn {
  static constexpr std::size_t kMaxRows = std::size_t{1} << 19;

  Metric metric;
  int layer;
  double factor;
  std::uint64_t truncations = 0, used = 0;
  std::size_t first_row = 0;
  double sum = 0, weight = 0;
  std::vector<float> averages{};  // from first_row on

  std::size_t end_row() const { return first_row + averages.size(); }
  void add(float value) {
    if (!std::isfinite(value)) return averages.push_back(kNoValue);
    sum = factor * sum + (1 - factor) * static_cast<double>(value);
    weight = factor * weight + (1 - factor);
    averages.push_back(static_cast<float>(sum / weight));
  }
  void forget_old() {
    if (averages.size() <= kMaxRows) return;
    const std::size_t gone = averages.size() - kMaxRows / 2;
    averages.erase(averages.begin(), averages.begin() + static_cast<std::ptrdiff_t>(gone));
    first_row += gone;
  }
};

}  // namespace moescope
