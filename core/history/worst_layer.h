// Which MoE layer of a run is the worst by a figure: a mean over layers hides one that is far from the others.
#pragma once

#include <cstdint>

#include "core/history/history.h"

namespace moescope {

struct LayerValue {
  int layer = -1;  // among all layers; -1: no layer has a value
  float value = kNoValue;
};

enum class Worst { largest, smallest };

// At `step`, or the nearest earlier step at which a layer has a value.
LayerValue worst_layer(const History& history, Metric metric, std::int64_t step, Worst worst = Worst::largest);

// By the MaxVio of the window, which single batches hardly move; by that of the batch where there is no window.
LayerValue least_even_layer(const History& history, std::int64_t step);

}  // namespace moescope
