// The scalars of a run in memory: a row for each step, and a column for each metric of the whole run and of each layer.
//
// The columns of a layer have rows only for steps whose frame has the layer, so that a frame takes time and memory for
// the layers that it has, not for all layers of the run. A column is a pyramid (pyramid.h); beyond a budget the oldest
// single values are reduced to min, max and mean of every 16, then of every 256. Not thread-safe: History locks it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "core/frame/figures.h"
#include "core/frame/frame.h"
#include "core/frame/metrics.h"
#include "core/recording/history/pyramid.h"
#include "core/recording/history/step_rows.h"

namespace moescope {

// Columns of a layer: figures of its router, then figures derived from the arrays of a frame.
inline constexpr int kFirstRouterMetric = static_cast<int>(Metric::max_vio);
inline constexpr int kNumRouterMetrics = kRouterFigures.size();
inline constexpr int kNumLayerMetrics = kNumMetrics - kFirstRouterMetric;
static_assert(static_cast<int>(Metric::flip_rate) == kFirstRouterMetric + kNumRouterMetrics);

class ScalarColumns {
 public:
  // Layers that `info` does not list are added when a frame has them.
  ScalarColumns(const RunInfo& info, std::size_t budget_bytes)
      : budget_(budget_bytes), tokens_per_step_(info.tokens_per_step) {
    for (const int layer : info.moe_layers) layers_[layer];
  }
  void append(const TelemetryFrame& frame);  // steps must rise
  void truncate(std::int64_t step);          // forgets the rows at and after `step`

  // Empty if there are no rows.
  StepRange steps() const { return steps_.empty() ? StepRange{} : StepRange{steps_.front(), steps_.back()}; }
  std::size_t bytes() const;

  // These functions implement the functions of History with these names. They fill a span, because memory is not
  // allocated under History's lock. If the layer or the metric has no column, the span is unchanged.
  float value_at(Metric metric, int layer, std::int64_t step) const;
  void values_at(Metric metric, int layer, std::span<const std::int64_t> steps, std::span<float> values) const;
  void series(Metric metric, int layer, std::span<const std::int64_t> edges, std::span<PyramidBin> bins) const;
  void smoothed(Metric metric, int layer, std::span<const std::int64_t> edges, double factor,
                std::span<float> bins) const;

  std::size_t size() const { return steps_.size(); }                           // rows
  std::size_t row_of(std::int64_t step) const { return steps_.row_of(step); }  // first row at or after `step`
  std::int64_t step_of(std::size_t row) const { return steps_[row]; }
  // Returns true if a frame of these steps has the layer.
  bool has_rows(int layer, StepRange steps) const;

 private:
  struct LayerColumns {
    StepRows rows;  // rows of the run that this layer has
    std::array<Pyramid, kNumLayerMetrics> scalars;
  };
  // A column and the rows of the run for which it has values; rows == nullptr: all rows.
  struct Column {
    const Pyramid* values;
    const StepRows* rows;
    std::size_t size() const { return rows ? rows->size() : values->size(); }
    std::size_t row(std::size_t i) const { return rows ? static_cast<std::size_t>((*rows)[i]) : i; }
    std::size_t first_at(std::size_t row) const { return rows ? rows->row_of(row) : std::min(row, values->size()); }
  };

  std::optional<Column> column(Metric metric, int layer) const;
  void append_layer_metrics(const TelemetryFrame& frame);
  void append_percentiles(const std::vector<RouterFrame>& routers, Metric first, float RouterFrame::*member);
  bool forget_older_half();

  std::size_t budget_;
  std::int64_t tokens_per_step_;
  StepRows steps_;
  std::array<Pyramid, kNumMetrics> whole_;
  std::map<int, LayerColumns> layers_;
};

}  // namespace moescope
