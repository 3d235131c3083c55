// Incremental smoothing of scalars: new steps continue from the last average.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "core/frame/metrics.h"

namespace moescope {

// Exponential moving average of a column at each of its newest rows; kNoValue if the row has no finite value.
struct SmoothedColumn {
  static constexpr std::size_t kMaxRows = std::size_t{1} << 19;

  Metric metric;
  int layer;
  double factor;
  std::uint64_t truncations = 0, used = 0;
  std::size_t first_row = 0;
  double sum = 0, weight = 0;
  std::vector<float> averages{};  // index 0 is first_row

  std::size_t end_row() const { return first_row + averages.size(); }
  void add(float value) {
    if (!std::isfinite(value)) return averages.push_back(kNoValue);
    sum = factor * sum + (1 - factor) * static_cast<double>(value);
    weight = factor * weight + (1 - factor);
    averages.push_back(static_cast<float>(sum / weight));
  }
  // Returns the average of the newest row of [first, last) that has one, else kNoValue. Requires first_row <= first and
  // last <= end_row().
  float newest(std::size_t first, std::size_t last) const {
    for (std::size_t row = last; row-- > first;)
      if (!is_missing(averages[row - first_row])) return averages[row - first_row];
    return kNoValue;
  }
  // Returns the row at which to start so that averages are right from `row` on: earlier rows weigh less than 1e-12.
  std::size_t first_needed(std::size_t row) const {
    const auto reach = static_cast<std::size_t>(std::ceil(std::log(1e-12) / std::log(factor)));
    return row > reach ? row - reach : 0;
  }
  void forget_old() {
    if (averages.size() <= kMaxRows) return;
    const std::size_t gone = averages.size() - kMaxRows / 2;
    averages.erase(averages.begin(), averages.begin() + static_cast<std::ptrdiff_t>(gone));
    first_row += gone;
  }
};

// The columns of averages that were used most recently.
class SmoothedColumns {
 public:
  // Returns the requested column; replaces the least recently used one if it does not exist.
  SmoothedColumn& of(Metric metric, int layer, double factor) {
    auto found = std::ranges::find_if(columns_, [&](const SmoothedColumn& column) {
      return column.metric == metric && column.layer == layer && column.factor == factor;
    });
    if (found == columns_.end()) {
      if (columns_.size() == kMost) columns_.erase(std::ranges::min_element(columns_, {}, &SmoothedColumn::used));
      columns_.push_back({metric, layer, factor});
      found = std::prev(columns_.end());
    }
    found->used = ++uses_;
    return *found;
  }

 private:
  static constexpr std::size_t kMost = 24;  // a window shows about ten
  std::vector<SmoothedColumn> columns_;
  std::uint64_t uses_ = 0;
};

}  // namespace moescope
