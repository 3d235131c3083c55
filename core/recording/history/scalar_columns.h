// The scalars of a run in memory: a row for each step, and a column for each metric of the whole run and of each layer.
//
// The columns of a layer have rows only for steps whose frame has the layer, so that a frame takes time and memory for
// the layers that it has, not for all layers of the run. A column is a pyramid (pyramid.h); beyond a budget the oldest
// single values are reduced to min, max and mean of every 16, then of every 256. Not thread-safe: History locks it.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "core/frame/figures.h"
#include "core/frame/frame.h"
#include "core/frame/metrics.h"
#include "core/frame/router_stats.h"
#include "core/numerics/index.h"
#include "core/recording/history/pyramid.h"
#include "core/recording/history/step_rows.h"

namespace moescope {

class ScalarColumns {
 public:
  // Layers that `info` does not list are added when a frame has them.
  ScalarColumns(const RunInfo& info, std::size_t budget_bytes)
      : budget_(budget_bytes), tokens_per_step_(info.tokens_per_step) {
    for (const int layer : info.moe_layers) layers_[layer];
  }

  // Steps must rise.
  void append(const TelemetryFrame& frame) {
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

  // Forgets the rows at and after `step`.
  void truncate(std::int64_t step) {
    const std::size_t rows = steps_.row_of(step);
    steps_.truncate(rows);
    for (Pyramid& column : whole_) column.truncate(rows);
    for (auto& [layer, columns] : layers_) {
      const std::size_t layer_rows = columns.rows.row_of(rows);
      columns.rows.truncate(layer_rows);
      for (Pyramid& column : columns.scalars) column.truncate(layer_rows);
    }
  }

  // Empty if there are no rows.
  StepRange steps() const { return steps_.empty() ? StepRange{} : StepRange{steps_.front(), steps_.back()}; }
  std::size_t bytes() const {
    std::size_t bytes = steps_.bytes();
    for (const Pyramid& column : whole_) bytes += column.bytes();
    for (const auto& [layer, columns] : layers_) {
      bytes += columns.rows.bytes();
      for (const Pyramid& column : columns.scalars) bytes += column.bytes();
    }
    return bytes;
  }

  // These functions implement the functions of History with these names. They fill a span, because memory is not
  // allocated under History's lock. If the layer or the metric has no column, the span is unchanged.
  float value_at(Metric metric, int layer, std::int64_t step) const {
    const auto found = column(metric, layer);
    if (!found) return kNoValue;
    const std::size_t end = step == INT64_MAX ? steps_.size() : steps_.row_of(step + 1);
    const std::size_t newest = found->values->last_present(found->first_at(end));
    return newest == Pyramid::kNone ? kNoValue : (*found->values)[newest];
  }

  void values_at(Metric metric, int layer, std::span<const std::int64_t> steps, std::span<float> values) const {
    const auto found = column(metric, layer);
    if (!found || found->size() == 0) return;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const std::size_t row = steps_.row_of(steps[i]);
      if (row == steps_.size() || steps_[row] != steps[i]) continue;
      const std::size_t at = found->first_at(row);
      if (at < found->size() && found->row(at) == row) values[i] = (*found->values)[at];
    }
  }

  void series(Metric metric, int layer, std::span<const std::int64_t> edges, std::span<PyramidBin> bins) const {
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

  std::size_t size() const { return steps_.size(); }                           // rows
  std::size_t row_of(std::int64_t step) const { return steps_.row_of(step); }  // first row at or after `step`
  std::int64_t step_of(std::size_t row) const { return steps_[row]; }
  // Returns true if a frame of these steps has the layer.
  bool has_rows(int layer, StepRange steps) const {
    const auto found = column(Metric::max_vio, layer);
    return found && found->first_at(steps_.row_of(steps.first)) < found->first_at(steps_.row_of(steps.last + 1));
  }

 private:
  // Columns of a layer: figures of its router, then figures derived from the arrays of a frame.
  static constexpr int kFirstRouterMetric = static_cast<int>(Metric::max_vio);
  static constexpr int kNumRouterMetrics = kRouterFigures.size();
  static constexpr int kNumLayerMetrics = kNumMetrics - kFirstRouterMetric;
  static_assert(static_cast<int>(Metric::flip_rate) == kFirstRouterMetric + kNumRouterMetrics);

  // Mean of the finite values; the last value if none is finite.
  class Mean {
   public:
    void add(float value) {
      if (is_missing(value)) return;
      last_ = value;
      if (!std::isfinite(value)) return;
      sum_ += value;
      ++count_;
    }
    float get() const { return count_ ? static_cast<float>(sum_ / count_) : last_; }

   private:
    double sum_ = 0;
    int count_ = 0;
    float last_ = kNoValue;
  };

  // Figures derived from arrays, in the order of Metric, beginning after the router figures.
  using DerivedValues = std::array<float, kNumLayerMetrics - kNumRouterMetrics>;

  // Derived figures of a layer, or of the whole run; `router` has the other figures of the layer.
  struct Derived {
    Mean flip_rate, sqnr_db, ranks_per_token, nodes_per_token, rank_overload, rounding_flip_rate;
    std::array<Mean, kNumRouterRoundings> changed;  // indexed by RouterRounding
    const GradientFrame* gradient = nullptr;
    const RouterFrame* router = nullptr;

    DerivedValues values() const {
      return {flip_rate.get(),
              sqnr_db.get(),
              gradient ? gradient->snr_db : kNoValue,
              gradient ? gradient->cosine : kNoValue,
              ranks_per_token.get(),
              nodes_per_token.get(),
              rank_overload.get(),
              rounding_flip_rate.get(),
              gradient ? gradient->pinned_snr_db : kNoValue,
              gradient ? gradient->pinned_cosine : kNoValue,
              changed_by(RouterRounding::operands),
              changed_by(RouterRounding::gate_output),
              changed_by(RouterRounding::bias),
              changed_by(RouterRounding::counts)};
    }
    float changed_by(RouterRounding rounding) const { return changed[static_cast<std::size_t>(rounding)].get(); }
  };

  static constexpr std::size_t kRowsBetweenChecks = 256;  // rows between two checks of the memory
  static_assert(static_cast<int>(Metric::step_ms) == to_int(kFrameFigures.size()));

  // Returns the mean over the layers that have a value; NaN if a layer's value is not finite.
  static float mean_over_layers(const std::vector<RouterFrame>& routers, float RouterFrame::*member) {
    double sum = 0;
    int present = 0;
    for (const RouterFrame& router : routers) {
      if (is_missing(router.*member)) continue;
      sum += router.*member;
      ++present;
    }
    return present ? static_cast<float>(sum / present) : kNoValue;
  }

  // Returns the derived figures of each layer that a frame has; those of the whole run are under kWholeRun.
  static std::map<int, Derived> derived_figures(const TelemetryFrame& frame, std::int64_t tokens) {
    std::map<int, Derived> derived;
    Derived& whole = derived[kWholeRun];
    const auto add = [&](int layer, auto mean, float value) {
      std::invoke(mean, whole).add(value);
      if (layer != kWholeRun) std::invoke(mean, derived[layer]).add(value);
    };
    for (const FlipFrame& flip : frame.flips) add(flip.layer, &Derived::flip_rate, flip.flip_rate);
    for (const FlipFrame& flip : frame.rounding_flips) add(flip.layer, &Derived::rounding_flip_rate, flip.flip_rate);
    for (const RouterRoundingFrame& row : frame.router_roundings) {
      const auto changed = [&](Derived& figures) -> Mean& {
        return figures.changed[static_cast<std::size_t>(row.rounding)];
      };
      add(row.layer, changed, row.changed);
    }
    for (const QuantFrame& quant : frame.quants) {
      derived[quant.layer];
      if (quant.gemm_class() == GemmClass::payload) continue;  // a round trip over the wire, not an operand
      add(quant.layer, &Derived::sqnr_db, quant.sqnr_db);
    }
    for (const GradientFrame& gradient : frame.gradients) {
      Derived& figures = derived[gradient.layer];
      if (gradient.group == GradientGroup::all && !figures.gradient) figures.gradient = &gradient;
    }
    for (const RouterFrame& router : frame.routers) {
      Derived& figures = derived[router.layer];
      if (!figures.router) figures.router = &router;
      add(router.layer, &Derived::ranks_per_token, ranks_per_token(router.volume, tokens));
      add(router.layer, &Derived::nodes_per_token, nodes_per_token(router.volume, tokens));
      add(router.layer, &Derived::rank_overload, rank_overload(router.volume));
    }
    return derived;
  }

  // Returns the sum of all phases; kNoValue if they were not timed.
  static float step_ms(const TelemetryFrame& frame) {
    float sum = 0;
    for (const float ms : frame.phase_ms) sum += ms;
    return sum > 0 ? sum : kNoValue;
  }

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

  std::optional<Column> column(Metric metric, int layer) const {
    const int index = static_cast<int>(metric);
    if (layer == kWholeRun) return Column{&whole_[index], nullptr};
    const auto found = layers_.find(layer);
    if (index < kFirstRouterMetric || found == layers_.end()) return std::nullopt;
    return Column{&found->second.scalars[index - kFirstRouterMetric], &found->second.rows};
  }

  // Appends the figures of each layer, and their means to the columns of the whole run.
  void append_layer_metrics(const TelemetryFrame& frame) {
    for (int i = 0; i < kNumRouterMetrics; ++i)
      whole_[kFirstRouterMetric + i].append(mean_over_layers(frame.routers, kRouterFigures[i].member));
    for (const auto& [layer, derived] : derived_figures(frame, tokens_per_step_)) {
      Pyramid* column = &whole_[kFirstRouterMetric + kNumRouterMetrics];
      if (layer != kWholeRun) {
        LayerColumns& columns = layers_[layer];
        columns.rows.push_back(steps_.size());
        column = columns.scalars.data();
        for (const auto& figure : kRouterFigures)
          column++->append(derived.router ? derived.router->*figure.member : kNoValue);
      }
      for (const float value : derived.values()) column++->append(value);
    }
  }

  // Appends percentiles of a figure over the layers to the columns `first` (p50), first + 1 (p90) and first + 2 (max).
  void append_percentiles(const std::vector<RouterFrame>& routers, Metric first, float RouterFrame::*member) {
    std::vector<float> values;
    for (const RouterFrame& router : routers) values.push_back(router.*member);
    int column = static_cast<int>(first);
    for (const double q : {0.5, 0.9, 1.0}) whole_[column++].append(percentile(values, q));
  }

  // Returns false if no column is long enough.
  bool forget_older_half() {
    bool any = false;
    for (Pyramid& column : whole_) any |= column.forget_older_half();
    for (auto& [layer, columns] : layers_)
      for (Pyramid& column : columns.scalars) any |= column.forget_older_half();
    return any;
  }

  std::size_t budget_;
  std::int64_t tokens_per_step_;
  StepRows steps_;
  std::array<Pyramid, kNumMetrics> whole_;
  std::map<int, LayerColumns> layers_;
};

}  // namespace moescope
