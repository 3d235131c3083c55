#include "core/history/scalar_columns.h"

#include <algorithm>
#include <cassert>

#include "core/frame/router_stats.h"

namespace moescope {

namespace {

constexpr std::size_t kRowsBetweenChecks = 256;  // rows between two checks of the memory
static_assert(static_cast<int>(Metric::step_ms) == static_cast<int>(kFrameFigures.size()));

// Returns the layers that a frame has, rising.
std::vector<int> layers_of(const TelemetryFrame& frame) {
  std::vector<int> layers;
  for (const RouterFrame& router : frame.routers) layers.push_back(router.layer);
  for (const FlipFrame& flip : frame.flips) layers.push_back(flip.layer);
  for (const FlipFrame& flip : frame.rounding_flips) layers.push_back(flip.layer);
  for (const RouterRoundingFrame& rounding : frame.router_roundings) layers.push_back(rounding.layer);
  for (const QuantFrame& quant : frame.quants) layers.push_back(quant.layer);
  for (const GradientFrame& gradient : frame.gradients) layers.push_back(gradient.layer);
  std::erase(layers, kWholeRun);
  std::ranges::sort(layers);
  layers.erase(std::ranges::unique(layers).begin(), layers.end());
  return layers;
}

}  // namespace

ScalarColumns::ScalarColumns(const RunInfo& info, std::size_t budget_bytes)
    : budget_(budget_bytes), tokens_per_step_(info.tokens_per_step) {
  for (const int layer : info.moe_layers) layers_[layer];
}

std::optional<ScalarColumns::Column> ScalarColumns::column(Metric metric, int layer) const {
  const int index = static_cast<int>(metric);
  if (layer == kWholeRun) return Column{&whole_[index], nullptr};
  const auto found = layers_.find(layer);
  if (index < kFirstRouterMetric || found == layers_.end()) return std::nullopt;
  return Column{&found->second.scalars[index - kFirstRouterMetric], &found->second.rows};
}

// Appends percentiles of a figure over the layers to the columns `first` (p50), first + 1 (p90) and first + 2 (max).
void ScalarColumns::append_percentiles(const std::vector<RouterFrame>& routers, Metric first,
                                       float RouterFrame::*member) {
  std::vector<float> values;
  for (const RouterFrame& router : routers) values.push_back(router.*member);
  int column = static_cast<int>(first);
  for (const double q : {0.5, 0.9, 1.0}) whole_[column++].append(percentile(values, q));
}

void ScalarColumns::append(const TelemetryFrame& frame) {
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

// Appends the figures of each layer, and their means to the columns of the whole run.
void ScalarColumns::append_layer_metrics(const TelemetryFrame& frame) {
  for (int i = 0; i < kNumRouterMetrics; ++i) {
    whole_[kFirstRouterMetric + i].append(mean_over_layers(frame.routers, kRouterFigures[i].member));
  }
  const std::vector<int> layers = layers_of(frame);
  const std::vector<DerivedValues> derived = derived_values(frame, layers, tokens_per_step_);
  int of_run = kFirstRouterMetric + kNumRouterMetrics;
  for (const float value : derived.back()) whole_[of_run++].append(value);
  std::map<int, const RouterFrame*> routers;
  for (const RouterFrame& router : frame.routers) routers.try_emplace(router.layer, &router);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto router = routers.find(layers[i]);
    append_layer(layers[i], router == routers.end() ? nullptr : router->second, derived[i]);
  }
}

void ScalarColumns::append_layer(int layer, const RouterFrame* router, const DerivedValues& derived) {
  LayerColumns& columns = layers_[layer];
  columns.rows.push_back(static_cast<std::int64_t>(steps_.size()));
  for (int i = 0; i < kNumRouterMetrics; ++i)
    columns.scalars[i].append(router ? router->*kRouterFigures[i].member : kNoValue);
  int of_layer = kNumRouterMetrics;
  for (const float value : derived) columns.scalars[of_layer++].append(value);
}

void ScalarColumns::truncate(std::int64_t step) {
  const std::size_t rows = steps_.row_of(step);
  steps_.truncate(rows);
  for (Pyramid& column : whole_) column.truncate(rows);
  for (auto& [layer, columns] : layers_) {
    const std::size_t of_layer = columns.rows.row_of(static_cast<std::int64_t>(rows));
    columns.rows.truncate(of_layer);
    for (Pyramid& column : columns.scalars) column.truncate(of_layer);
  }
}

std::size_t ScalarColumns::bytes() const {
  std::size_t bytes = steps_.bytes();
  for (const Pyramid& column : whole_) bytes += column.bytes();
  for (const auto& [layer, columns] : layers_) {
    bytes += columns.rows.bytes();
    for (const Pyramid& column : columns.scalars) bytes += column.bytes();
  }
  return bytes;
}

// Returns false if no column is long enough.
bool ScalarColumns::forget_older_half() {
  bool any = false;
  for (Pyramid& column : whole_) any |= column.forget_older_half();
  for (auto& [layer, columns] : layers_) {
    for (Pyramid& column : columns.scalars) any |= column.forget_older_half();
  }
  return any;
}

StepRange ScalarColumns::steps() const {
  return steps_.empty() ? StepRange{} : StepRange{steps_.front(), steps_.back()};
}

float ScalarColumns::value_at(Metric metric, int layer, std::int64_t step) const {
  const auto found = column(metric, layer);
  if (!found) return kNoValue;
  const std::size_t end = step == INT64_MAX ? steps_.size() : steps_.row_of(step + 1);
  const std::size_t newest = found->values->last_present(found->first_at(end));
  return newest == Pyramid::kNone ? kNoValue : (*found->values)[newest];
}

void ScalarColumns::values(Metric metric, int layer, StepRange range, std::span<float> values) const {
  const auto found = column(metric, layer);
  if (!found) return;
  const std::size_t end = found->first_at(steps_.row_of(range.last + 1));
  for (std::size_t i = found->first_at(steps_.row_of(range.first)); i < end; ++i) {
    values[static_cast<std::size_t>(steps_[found->row(i)] - range.first)] = (*found->values)[i];
  }
}

void ScalarColumns::values_at(Metric metric, int layer, std::span<const std::int64_t> steps,
                              std::span<float> values) const {
  const auto found = column(metric, layer);
  if (!found || found->size() == 0) return;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::size_t row = steps_.row_of(steps[i]);
    if (row == steps_.size() || steps_[row] != steps[i]) continue;
    const std::size_t at = found->first_at(row);
    if (at < found->size() && found->row(at) == row) values[i] = (*found->values)[at];
  }
}

void ScalarColumns::series(Metric metric, int layer, std::span<const std::int64_t> edges,
                           std::span<PyramidBin> bins) const {
  const auto found = column(metric, layer);
  if (!found) return;
  std::size_t first_row = steps_.row_of(edges.front()), first = found->first_at(first_row);
  for (std::size_t b = 0; b < bins.size(); ++b) {
    const std::size_t end_row = steps_.row_of(edges[b + 1]), end = found->first_at(end_row);
    bins[b] = found->values->slice(first, end);
    bins[b].missing += static_cast<std::uint32_t>((end_row - first_row) - (end - first));
    first_row = end_row;
    first = end;
  }
}

bool ScalarColumns::has_rows(int layer, StepRange steps) const {
  const auto found = column(Metric::max_vio, layer);
  return found && found->first_at(steps_.row_of(steps.first)) < found->first_at(steps_.row_of(steps.last + 1));
}

std::vector<float> ScalarColumns::rows(Metric metric, int layer, std::size_t first, std::size_t last) const {
  assert(has(metric, layer));
  if (first >= last) return {};
  std::vector<float> values(last - first, kNoValue);
  const Column found = *column(metric, layer);
  const std::size_t begin = found.first_at(first), end = found.first_at(last);
  if (end - begin == last - first) {
    found.values->copy(begin, end, values.data());
  } else {
    for (std::size_t i = begin; i < end; ++i) values[found.row(i) - first] = (*found.values)[i];
  }
  return values;
}

}  // namespace moescope
