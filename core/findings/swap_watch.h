// Watches whether two layers exchange their loads: which experts are full and which empty is as stable as a
// fingerprint, and differs from layer to layer.
//
// For each window the load of a layer is compared with what it was before, and where it does not fit, with what that of
// the others was before.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/findings/findings.h"
#include "core/history/step_axis.h"

namespace moescope {

// Exchanged: each layer's loads correlate this much with the other's before, and by so much less with its own. Together
// the two correlations have to be so many standard deviations (Fisher's transformation) above what chance gives.
inline constexpr double kSwappedCorrelation = 0.6, kSwappedBy = 0.3, kSwapDeviations = 5;
inline constexpr std::int64_t kSwappedSteps = 200;

// Mean loads of all layers in a window.
struct LayerMeans {
  StepRange steps;
  std::vector<std::vector<float>> shares;  // [layers, E]; empty: the layer has none
};

class SwapWatch {
 public:
  SwapWatch(std::span<const int> layers, int run, const StepAxis& axis);

  void window(const LayerMeans& means);
  void findings(std::vector<Finding>& out) const;

 private:
  struct Pattern {
    std::vector<float> before;  // [E] mean share of earlier windows; empty: none yet
    double stable = 0;          // its usual correlation with the window that follows
    double now = 0;             // of the newest window
    void take(const std::vector<float>& shares);
  };
  struct Swap {
    std::size_t a = 0, b = 0;  // places of layers
    std::int64_t since = -1;
    int windows = 0;
  };
  bool are_swapped(const LayerMeans& means, std::size_t a, std::size_t b) const;
  void find_swaps(const LayerMeans& means);
  bool is_in_a_swap(std::size_t layer) const;

  const StepAxis* axis_;
  std::vector<int> layers_;
  int run_;
  std::int64_t last_step_ = -1;
  std::vector<Pattern> patterns_;
  std::vector<Swap> swaps_;  // that go on
};

}  // namespace moescope
