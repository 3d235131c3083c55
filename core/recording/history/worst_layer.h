// Finds the MoE layer with the worst value of a figure, because a mean over layers hides one bad layer.
#pragma once

#include <cstdint>

#include "core/recording/history/history.h"

namespace moescope {

struct LayerValue {
  int layer = -1;  // among all layers; -1: no layer has a value
  float value = kNoValue;
};

// Compares the layers at `step`, or at the nearest earlier step at which a layer has a value.
LayerValue worst_layer(const History& history, Metric metric, std::int64_t step, Worst worst = Worst::largest);

// Compares MaxVio over the window, which single batches hardly change; MaxVio of the batch if there is no window.
LayerValue least_even_layer(const History& history, std::int64_t step);

}  // namespace moescope
