// The gain of DeepEP over the standard all-to-all for a whole MoE layer: gains measured on 8 H200s
// (assets/calibration/h200x8.json), the layer model's curves through these points, and the modelled gain for the router
// on the screen.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moescope {

struct LayerGain {
  std::string name;  // name of the routing
  double copies, rank_max_over_mean;
  double measured, modelled;        // standard / DeepEP time of the layer; `measured` is NaN if only modelled
  double measured_ms, modelled_ms;  // time of the DeepEP layer
};

struct LayerGains {
  std::vector<LayerGain> measured, by_groups, by_skew;  // by_groups and by_skew are modelled curves
};

// `model` is "671B" or "16B". Both functions are pure and meant for a worker thread: they take 130 ms and 20 ms. They
// throw std::runtime_error if the model was not measured.
LayerGains layer_gains(const std::string& model);
// Returns the modelled gain for the router of a run in this program; `load` is its tokens_per_expert.
LayerGain layer_gain_of_load(const std::string& model, const std::vector<std::uint32_t>& load);

}  // namespace moescope
