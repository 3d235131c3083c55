// How the last 50 steps together spread their tokens over the experts: the figures of the verdict, of the tiles beside
// it and of the bars of the expert load are these, so that they agree.
#pragma once

#include <cstdint>
#include <vector>

#include "core/history/history.h"

namespace moescope {

inline constexpr std::int64_t kWindowSteps = 50;

// The load of one MoE layer. Legend: E experts, u_e the mean utilisation of the window, 1 = fair.
struct LayerWindow {
  int layer = -1;
  std::vector<float> utilisation;  // [E]
  int fullest = 0;                 // expert
  double max_vio = 0;              // max u_e - 1
  double cv = 0;                   // standard deviation of u_e
  double entropy = 0;              // of u_e / E, against ln E: 1 is even
  int silent = 0;                  // experts without a token
};
LayerWindow layer_window(int layer, std::vector<float> utilisation);  // without NaN, not empty

struct RouterWindow {
  StepRange steps;
  std::vector<LayerWindow> layers;                          // those that have a load
  double chance_max_vio = 0, chance_cv = 0;                 // of an even router with as many tokens; NaN: not known
  const LayerWindow* of(int layer) const;                   // nullptr: none
  const LayerWindow* worst(double LayerWindow::*by) const;  // with the largest value; nullptr: no layer
};
// Up to `step`; costs as much as reading 50 loads of every layer.
RouterWindow router_window(const History& history, std::int64_t step);
// One layer only; without utilisation: it has no load there.
LayerWindow layer_window(const History& history, int layer, std::int64_t step);

// The last step at which a figure was at or above a limit; -1: none.
std::int64_t last_step_at_least(const History& history, Metric metric, int layer, float limit);

// The figures of one layer over the run, at most kPoints windows evenly apart, to draw a small curve: only windows that
// are new cost anything.
class WindowTrack {
 public:
  static constexpr std::size_t kPoints = 96;
  // Up to `step`, of another history or layer from its beginning.
  const std::vector<LayerWindow>& upto(const History& history, int layer, std::int64_t step);

 private:
  const History* history_ = nullptr;  // only compared
  std::uint64_t truncations_ = 0;
  int layer_ = -1;
  std::int64_t first_ = 0, stride_ = 1;
  std::vector<LayerWindow> points_, shown_;  // without their utilisation; at first_ + i * stride_; a layer -1: no load
};

}  // namespace moescope
