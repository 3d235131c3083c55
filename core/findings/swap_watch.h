// Watches whether two layers exchange their loads. The load of each expert is stable over time and differs from layer
// to layer.
//
// For each window the load of a layer is compared with its own earlier load; if they differ, with the earlier loads of
// other layers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/findings/findings.h"
#include "core/recording/history/step_axis.h"

namespace moescope {

// Exchanged: the correlation of each layer's load with the other's earlier load is at least kSwappedCorrelation, and
// its correlation with its own earlier load is lower by kMinSwapGain. Together the two correlations must be
// kSwapDeviations standard deviations (Fisher's transformation) above the value of chance.
inline constexpr double kSwappedCorrelation = 0.6, kMinSwapGain = 0.3, kSwapDeviations = 5;
inline constexpr std::int64_t kSwappedSteps = 200;

// Mean loads of all layers in a window.
struct LayerMeans {
  StepRange steps;
  std::vector<std::vector<float>> shares;  // [layers, E]; empty: the layer has no load
};

class SwapWatch {
 public:
  SwapWatch(std::span<const int> layers, int run, const StepAxis& axis);

  // Returns the loads of a layer at these positions, [positions, E]; NaN for a position without a load.
  using LoadsOf = std::function<std::vector<float>(int layer, StepRange positions)>;
  void window(const LayerMeans& means, const LoadsOf& loads_of);
  void findings(std::vector<Finding>& out) const;

 private:
  struct Pattern {
    std::vector<float> before;  // [E] mean share of earlier windows; empty: no window yet
    double stable = 0;          // usual correlation with the next window
    double newest = 0;          // correlation with the newest window
    void take(const std::vector<float>& shares);
  };
  struct Swap {
    std::size_t a = 0, b = 0;      // indices of layers
    std::int64_t first_step = -1;  // first load that shows it
    int windows = 0;
  };
  bool are_swapped(const LayerMeans& means, std::size_t a, std::size_t b) const;
  void find_swaps(const LayerMeans& means, const LoadsOf& loads_of);
  std::int64_t first_load_of(std::size_t a, std::size_t b, StepRange window, const LoadsOf& loads_of) const;
  bool is_in_a_swap(std::size_t layer) const {
    return std::ranges::any_of(swaps_, [layer](const Swap& swap) { return swap.a == layer || swap.b == layer; });
  }

  const StepAxis* axis_;
  std::vector<int> layers_;
  int run_;
  std::int64_t last_step_ = -1;
  std::vector<Pattern> patterns_;
  std::vector<Swap> swaps_;  // ongoing swaps
};

}  // namespace moescope
