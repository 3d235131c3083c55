#include "core/recording/history/router_window.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/frame/router_stats.h"
#include "core/recording/history/step_axis.h"

namespace moescope {

LayerWindow layer_window(int layer, std::vector<float> utilisation) {
  LayerWindow window;
  window.layer = layer;
  window.utilisation = std::move(utilisation);
  const auto& u = window.utilisation;
  const double n = u.size();
  const auto fullest = std::ranges::max_element(u);
  window.fullest = to_int(fullest - u.begin());
  window.max_vio = static_cast<double>(*fullest) - 1;
  window.silent = to_int(std::ranges::count(u, 0.0f));
  const double sum = std::accumulate(u.begin(), u.end(), 0.0);
  double squares = 0, entropy = 0;
  for (const float expert_utilisation : u) {
    const double share = expert_utilisation / sum;
    squares += (share * n - 1) * (share * n - 1);
    if (share > 0) entropy -= share * std::log(share);
  }
  window.cv = std::sqrt(squares / n);
  window.entropy = u.size() > 1 ? entropy / std::log(n) : 1;
  return window;
}

StepRange window_steps(const History& history, std::int64_t step, std::int64_t length) {
  const std::vector<std::int64_t> lines = history.steps_in(history.last_steps(length, step));
  if (lines.empty()) return {};
  std::size_t first = lines.size() - 1;
  for (std::int64_t positions = 0; first > 0; --first) {
    positions += std::min(lines[first] - lines[first - 1], kLongestGap);
    if (positions >= length) break;
  }
  return {lines[first], lines.back()};
}

LayerWindow layer_window(const History& history, int layer, std::int64_t step) {
  const StepRange steps = window_steps(history, step);
  const LayerWindow none;
  if (steps.empty()) return none;
  std::vector<float> load = history.utilisation(layer, steps, 1, Summary::mean);
  if (load.empty() || std::isnan(load.front())) return none;
  return layer_window(layer, std::move(load));
}

float window_value(const History& history, Metric metric, int layer, std::int64_t step) {
  const auto figure = metric == Metric::cv ? &LayerWindow::cv : &LayerWindow::entropy;
  if (metric != Metric::cv && metric != Metric::entropy_norm) return kNoValue;
  double sum = 0;
  int layers = 0;
  for (const int moe_layer : layer == kWholeRun ? history.info().moe_layers : std::vector{layer}) {
    const LayerWindow window = layer_window(history, moe_layer, step);
    if (window.utilisation.empty()) continue;
    sum += window.*figure;
    ++layers;
  }
  return layers > 0 ? static_cast<float>(sum / layers) : kNoValue;
}

const LayerWindow* RouterWindow::find_layer(int layer) const {
  const auto found = std::ranges::find(layers, layer, &LayerWindow::layer);
  return found == layers.end() ? nullptr : &*found;
}

const LayerWindow* RouterWindow::worst(double LayerWindow::*by) const {
  const auto found =
      by == &LayerWindow::entropy ? std::ranges::min_element(layers, {}, by) : std::ranges::max_element(layers, {}, by);
  return found == layers.end() ? nullptr : &*found;
}

int RouterWindow::silent() const {
  return std::accumulate(layers.begin(), layers.end(), 0,
                         [](int sum, const LayerWindow& layer) { return sum + layer.silent; });
}

RouterWindow router_window(const History& history, std::int64_t step) {
  RouterWindow window;
  window.steps = window_steps(history, step);
  if (window.steps.empty()) return window;
  for (const int layer : history.info().moe_layers)
    if (LayerWindow layer_loads = layer_window(history, layer, step); !layer_loads.utilisation.empty())
      window.layers.push_back(std::move(layer_loads));
  double slots = 0;
  for (const float step_assignments : history.assignments(edges_of(history.steps_in(window.steps))))
    if (!std::isnan(step_assignments)) slots += step_assignments;
  const int top_k = std::max(1, history.info().top_k);
  const auto tokens = static_cast<std::int64_t>(slots / top_k);
  window.chance_max_vio = max_vio_noise_floor(tokens, top_k, history.info().n_experts);
  window.chance_cv = utilisation_noise(tokens, top_k, history.info().n_experts);
  return window;
}

std::int64_t last_step_at_least(const History& history, Metric metric, int layer, float limit) {
  constexpr int kBins = 256;
  StepRange steps = history.steps();
  while (!steps.empty()) {
    const int bins = to_int(std::min<std::int64_t>(kBins, steps.size()));
    const auto values = history.series(metric, layer, steps, bins);
    const auto last = std::find_if(values.rbegin(), values.rend(),
                                   [limit](const PyramidBin& bin) { return bin.finite > 0 && bin.max >= limit; });
    if (last == values.rend()) return -1;
    const int bin = to_int(values.rend() - last) - 1;
    const StepRange part{slice_begin(steps, bins, bin), slice_begin(steps, bins, bin + 1) - 1};
    if (part.size() <= 1 || part == steps) return part.last;
    steps = part;
  }
  return -1;
}

std::vector<LayerWindow> window_track(const History& history, int layer, std::int64_t step) {
  const StepRange steps = history.steps();
  const std::int64_t last = std::min(step, steps.last);
  std::int64_t stride = 1;
  while ((last - steps.first) / stride >= kTrackPoints) stride *= 2;
  std::vector<LayerWindow> points;
  for (std::int64_t at = steps.first; at <= last; at += stride) points.push_back(layer_window(history, layer, at));
  return points;
}

LayerValue worst_layer(const History& history, Metric metric, std::int64_t step, Worst worst) {
  LayerValue found;
  for (const int layer : history.info().moe_layers) {
    const float value = history.value_at(metric, layer, step);
    if (std::isnan(value)) continue;
    const bool worse = worst == Worst::largest ? value > found.value : value < found.value;
    if (found.layer < 0 || worse) found = {layer, value};
  }
  return found;
}

LayerValue least_even_layer(const History& history, std::int64_t step) {
  const LayerValue window_layer = worst_layer(history, Metric::max_vio_window, step);
  return window_layer.layer >= 0 ? window_layer : worst_layer(history, Metric::max_vio, step);
}

}  // namespace moescope
