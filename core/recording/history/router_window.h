// Load of the experts over the last 50 steps together. The verdict, the tiles beside it and the bars of the expert load
// all use these figures, so that they agree.
#pragma once

#include <cstdint>
#include <vector>

#include "core/recording/history/history.h"

namespace moescope {

inline constexpr std::int64_t kWindowSteps = 50;

// Load of one MoE layer over the window. Legend: E experts, u_e mean utilisation of expert e, 1 = fair share.
struct LayerWindow {
  int layer = -1;
  std::vector<float> utilisation;  // [E]
  int fullest = 0;                 // expert with the largest u_e
  double max_vio = 0;              // max u_e - 1
  double cv = 0;                   // standard deviation of u_e
  double entropy = 0;              // entropy of u_e / E, divided by ln E; 1: even load
  int silent = 0;                  // experts without a token
};
LayerWindow layer_window(int layer, std::vector<float> utilisation);  // `utilisation`: not empty, without NaN

struct RouterWindow {
  StepRange steps;
  std::vector<LayerWindow> layers;                 // layers that have a load
  double chance_max_vio = 0, chance_cv = 0;        // values of chance for as many tokens; NaN: not known
  const LayerWindow* find_layer(int layer) const;  // nullptr if the layer has no load
  // Layer with the largest MaxVio or CV, or with the lowest entropy; nullptr: no layers.
  const LayerWindow* worst(double LayerWindow::*by) const;
  int silent() const;  // unused experts of all layers
};
// Returns the last `length` positions (step_axis.h) up to `step`; a log may have lines at some of them only.
StepRange window_steps(const History& history, std::int64_t step, std::int64_t length = kWindowSteps);
// Returns the window that ends at `step`; reads 50 loads of every layer.
RouterWindow router_window(const History& history, std::int64_t step);
// Returns one layer of the window that ends at `step`; `utilisation` is empty if the layer has no load in the window.
LayerWindow layer_window(const History& history, int layer, std::int64_t step);
// Returns Metric::cv or Metric::entropy_norm over the window that ends at `step`, of one layer or as a mean over layers
// (kWholeRun); a missing value for other figures, and if there is no load.
float window_value(const History& history, Metric metric, int layer, std::int64_t step);

// Returns the last step at which the figure was at or above `limit`; -1 if there is no such step.
std::int64_t last_step_at_least(const History& history, Metric metric, int layer, float limit);

// Returns the figures of one layer from the beginning of the run to `step` at no more than kTrackPoints evenly spaced
// windows, for a small curve. A window without a load has layer -1.
inline constexpr std::int64_t kTrackPoints = 96;
std::vector<LayerWindow> window_track(const History& history, int layer, std::int64_t step);

// The MoE layer with the worst value of a figure, because a mean over layers hides one bad layer.
struct LayerValue {
  int layer = -1;  // among all layers; -1: no layer has a value
  float value = kNoValue;
};

// Compares the layers at `step`, or at the nearest earlier step at which a layer has a value.
LayerValue worst_layer(const History& history, Metric metric, std::int64_t step, Worst worst = Worst::largest);

// Compares MaxVio over the window, which single batches hardly change; MaxVio of the batch if there is no window.
LayerValue least_even_layer(const History& history, std::int64_t step);

}  // namespace moescope
