#include "core/history/router_window.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/frame/router_stats.h"

namespace moescope {

LayerWindow layer_window(int layer, std::vector<float> utilisation) {
  LayerWindow window;
  window.layer = layer;
  window.utilisation = std::move(utilisation);
  const auto& u = window.utilisation;
  const auto n = static_cast<double>(u.size());
  const auto fullest = std::ranges::max_element(u);
  window.fullest = static_cast<int>(fullest - u.begin());
  window.max_vio = static_cast<double>(*fullest) - 1;
  window.silent = static_cast<int>(std::ranges::count(u, 0.0f));
  const double sum = std::accumulate(u.begin(), u.end(), 0.0);
  double squares = 0, entropy = 0;
  for (const float each : u) {
    const double share = static_cast<double>(each) / sum;
    squares += (share * n - 1) * (share * n - 1);
    if (share > 0) entropy -= share * std::log(share);
  }
  window.cv = std::sqrt(squares / n);
  window.entropy = u.size() > 1 ? entropy / std::log(n) : 1;
  return window;
}

LayerWindow layer_window(const History& history, int layer, std::int64_t step) {
  const StepRange steps = history.last_steps(kWindowSteps, step);
  const LayerWindow none;
  if (steps.empty()) return none;
  std::vector<float> load = history.utilisation(layer, steps, 1, Summary::mean);
  if (load.empty() || std::isnan(load.front())) return none;
  return layer_window(layer, std::move(load));
}

const LayerWindow* RouterWindow::of(int layer) const {
  const auto found = std::ranges::find(layers, layer, &LayerWindow::layer);
  return found == layers.end() ? nullptr : &*found;
}

const LayerWindow* RouterWindow::worst(double LayerWindow::*by) const {
  const auto found = std::ranges::max_element(layers, {}, by);
  return found == layers.end() ? nullptr : &*found;
}

RouterWindow router_window(const History& history, std::int64_t step) {
  RouterWindow window;
  window.steps = history.last_steps(kWindowSteps, step);
  if (window.steps.empty()) return window;
  for (const int layer : history.info().moe_layers)
    if (LayerWindow each = layer_window(history, layer, step); !each.utilisation.empty())
      window.layers.push_back(std::move(each));
  double slots = 0;
  for (const float each : history.assignments(edges_of(history.steps_in(window.steps))))
    if (!std::isnan(each)) slots += static_cast<double>(each);
  const int top_k = std::max(1, history.info().top_k);
  const auto tokens = static_cast<std::int64_t>(slots / top_k);
  window.chance_max_vio = static_cast<double>(max_vio_noise_floor(tokens, top_k, history.info().n_experts));
  window.chance_cv = static_cast<double>(utilisation_noise(tokens, top_k, history.info().n_experts));
  return window;
}

std::int64_t last_step_at_least(const History& history, Metric metric, int layer, float limit) {
  constexpr int kBins = 256;
  StepRange steps = history.steps();
  while (!steps.empty()) {
    const int bins = static_cast<int>(std::min<std::int64_t>(kBins, steps.size()));
    const auto values = history.series(metric, layer, steps, bins);
    const auto last = std::find_if(values.rbegin(), values.rend(),
                                   [limit](const PyramidBin& bin) { return bin.finite > 0 && bin.max >= limit; });
    if (last == values.rend()) return -1;
    const int bin = static_cast<int>(values.rend() - last) - 1;
    const StepRange part{slice_begin(steps, bins, bin), slice_begin(steps, bins, bin + 1) - 1};
    if (part.size() <= 1 || part == steps) return part.last;
    steps = part;
  }
  return -1;
}

const std::vector<LayerWindow>& WindowTrack::upto(const History& history, int layer, std::int64_t step) {
  if (&history != history_ || history.truncations() != truncations_ || layer != layer_ ||
      history.steps().first != first_) {
    points_.clear();
    stride_ = 1;
  }
  history_ = &history, truncations_ = history.truncations(), layer_ = layer, first_ = history.steps().first;
  const auto point_at = [&](std::size_t i) { return first_ + static_cast<std::int64_t>(i) * stride_; };
  const std::int64_t last = std::min(step, history.steps().last);
  while ((last - first_) / stride_ >= static_cast<std::int64_t>(kPoints)) {
    stride_ *= 2;
    for (std::size_t i = 0; 2 * i < points_.size(); ++i) points_[i] = points_[2 * i];
    points_.resize((points_.size() + 1) / 2);
  }
  while (point_at(points_.size()) <= last) {
    points_.push_back(layer_window(history, layer, point_at(points_.size())));
    points_.back().utilisation.clear();
  }
  const auto wanted = static_cast<std::size_t>(std::max<std::int64_t>(0, (last - first_) / stride_ + 1));
  shown_.assign(points_.begin(), points_.begin() + static_cast<std::ptrdiff_t>(std::min(wanted, points_.size())));
  return shown_;
}

}  // namespace moescope
