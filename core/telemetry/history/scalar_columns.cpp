#include "core/telemetry/history/scalar_columns.h"

#include <cassert>

#include "core/telemetry/frame/router_stats.h"

namespace moescope {

namespace {

constexpr std::size_t kRowsBetweenChecks = 256;  // of the memory that the columns take
static_assert(static_cast<int>(Metric::step_ms) == static_cast<int>(kFrameFigures.size()));

}  // namespace

ScalarColumns::ScalarColumns(const RunInfo& info, std::size_t budget_bytes)
    : budget_(budget_bytes), tokens_per_step_(info.tokens_per_step) {
  for (const int layer : info.moe_layers) columns_of(layer);
}

const Pyramid* ScalarColumns::column(Metric metric, int layer) const {
  const int index = static_cast<int>(metric);
  if (layer == kWholeRun) return &whole_[index];
  if (index < kFirstRouterMetric) return nullptr;
  for (const LayerColumns& columns : layers_) {
    if (columns.layer == layer) return &columns.scalars[index - kFirstRouterMetric];
  }
  return nullptr;
}

ScalarColumns::LayerColumns& ScalarColumns::columns_of(int layer) {
  for (LayerColumns& columns : layers_) {
    if (columns.layer == layer) return columns;
  }
  layers_.push_back({layer, {}});
  for (Pyramid& scalar : layers_.back().scalars) {
    for (std::size_t i = 0; i < steps_.size(); ++i) scalar.append(kNoValue);
  }
  return layers_.back();
}

void ScalarColumns::add_layers(const TelemetryFrame& frame) {
  for (const RouterFrame& router : frame.routers) columns_of(router.layer);
  for (const FlipFrame& flip : frame.flips) columns_of(flip.layer);
  for (const QuantFrame& quant : frame.quants) {
    if (quant.layer != kWholeRun) columns_of(quant.layer);
  }
  for (const GradientFrame& gradient : frame.gradients) {
    if (gradient.layer != kWholeRun) columns_of(gradient.layer);
  }
}

// Of a figure over the layers: to the columns `first` (p50), p90 and max.
void ScalarColumns::append_percentiles(const std::vector<RouterFrame>& routers, Metric first,
                                       float RouterFrame::*member) {
  std::vector<float> values;
  for (const RouterFrame& router : routers) values.push_back(router.*member);
  int column = static_cast<int>(first);
  for (const double q : {0.5, 0.9, 1.0}) whole_[column++].append(percentile(values, q));
}

void ScalarColumns::append(const TelemetryFrame& frame) {
  add_layers(frame);
  for (std::size_t i = 0; i < kFrameFigures.size(); ++i) whole_[i].append(frame.*kFrameFigures[i].member);
  whole_[static_cast<int>(Metric::step_ms)].append(step_ms(frame));
  append_percentiles(frame.routers, Metric::max_vio_p50, &RouterFrame::max_vio);
  append_percentiles(frame.routers, Metric::max_vio_window_p50, &RouterFrame::max_vio_window);
  append_layer_metrics(frame);
  steps_.push_back(frame.step);
  if (steps_.size() % kRowsBetweenChecks == 0) {
    while (bytes() > budget_ && forget_older_half()) {
    }
  }
}

// Those of each layer, and of the whole run what they are together.
void ScalarColumns::append_layer_metrics(const TelemetryFrame& frame) {
  for (int i = 0; i < kNumRouterMetrics; ++i) {
    whole_[kFirstRouterMetric + i].append(mean_over_layers(frame.routers, kRouterFigures[i].member));
  }
  std::vector<int> column_layers;
  for (const LayerColumns& columns : layers_) column_layers.push_back(columns.layer);
  const std::vector<DerivedValues> derived = derived_values(frame, column_layers, tokens_per_step_);
  int of_run = kFirstRouterMetric + kNumRouterMetrics;
  for (const float value : derived.back()) whole_[of_run++].append(value);
  for (std::size_t place = 0; place < layers_.size(); ++place) {
    LayerColumns& columns = layers_[place];
    const RouterFrame* router = find_router(&frame, columns.layer);
    for (int i = 0; i < kNumRouterMetrics; ++i) {
      columns.scalars[i].append(router ? router->*kRouterFigures[i].member : kNoValue);
    }
    int of_layer = kNumRouterMetrics;
    for (const float value : derived[place]) columns.scalars[of_layer++].append(value);
  }
}

void ScalarColumns::truncate(std::int64_t step) {
  const std::size_t rows = steps_.row_of(step);
  steps_.truncate(rows);
  for (Pyramid& column : whole_) column.truncate(rows);
  for (LayerColumns& columns : layers_) {
    for (Pyramid& column : columns.scalars) column.truncate(rows);
  }
}

std::size_t ScalarColumns::bytes() const {
  std::size_t bytes = steps_.bytes();
  for (const Pyramid& column : whole_) bytes += column.bytes();
  for (const LayerColumns& columns : layers_) {
    for (const Pyramid& column : columns.scalars) bytes += column.bytes();
  }
  return bytes;
}

// False: nothing is long enough.
bool ScalarColumns::forget_older_half() {
  bool any = false;
  for (Pyramid& column : whole_) any |= column.forget_older_half();
  for (LayerColumns& columns : layers_) {
    for (Pyramid& column : columns.scalars) any |= column.forget_older_half();
  }
  return any;
}

StepRange ScalarColumns::steps() const {
  return steps_.empty() ? StepRange{} : StepRange{steps_.front(), steps_.back()};
}

float ScalarColumns::value_at(Metric metric, int layer, std::int64_t step) const {
  const Pyramid* found = column(metric, layer);
  if (!found) return kNoValue;
  const std::size_t end = step == INT64_MAX ? found->size() : steps_.row_of(step + 1);
  const std::size_t row = found->last_present(end);
  return row == Pyramid::kNone ? kNoValue : (*found)[row];
}

void ScalarColumns::values(Metric metric, int layer, StepRange range, std::span<float> values) const {
  const Pyramid* found = column(metric, layer);
  if (!found) return;
  const std::size_t end = steps_.row_of(range.last + 1);
  for (std::size_t row = steps_.row_of(range.first); row < end; ++row) {
    values[static_cast<std::size_t>(steps_[row] - range.first)] = (*found)[row];
  }
}

void ScalarColumns::values_at(Metric metric, int layer, std::span<const std::int64_t> steps,
                              std::span<float> values) const {
  const Pyramid* found = column(metric, layer);
  if (!found) return;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::size_t row = steps_.row_of(steps[i]);
    if (row < steps_.size() && steps_[row] == steps[i]) values[i] = (*found)[row];
  }
}

void ScalarColumns::series(Metric metric, int layer, std::span<const std::int64_t> edges,
                           std::span<PyramidBin> bins) const {
  const Pyramid* found = column(metric, layer);
  if (!found) return;
  std::size_t begin = steps_.row_of(edges.front());
  for (std::size_t b = 0; b < bins.size(); ++b) {
    const std::size_t end = steps_.row_of(edges[b + 1]);
    bins[b] = found->slice(begin, end);
    begin = end;
  }
}

std::vector<float> ScalarColumns::rows(Metric metric, int layer, std::size_t first, std::size_t last) const {
  assert(has(metric, layer));
  std::vector<float> values;
  if (first >= last) return values;
  values.resize(last - first);
  column(metric, layer)->copy(first, last, values.data());
  return values;
}

}  // namespace moescope
