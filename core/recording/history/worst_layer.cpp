#include "core/recording/history/worst_layer.h"

#include <cmath>

namespace moescope {

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
  const LayerValue of_window = worst_layer(history, Metric::max_vio_window, step);
  return of_window.layer >= 0 ? of_window : worst_layer(history, Metric::max_vio, step);
}

}  // namespace moescope
