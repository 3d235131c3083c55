// A colour for each expert of a layer.
//
// With few experts neighbours differ at sight; with 64 and more no palette can, so a colour is a hint and the number
// is always beside it, in the legend, in the readout and on click. Colours run along the cycle of Okabe and Ito's
// colour-blind-safe ones in three steps of lightness. By id the golden ratio spreads neighbours, and an expert keeps
// its colour through time; in an order (of co-activation), what stands near looks alike: a team is one hue.
#pragma once

#include <QColor>
#include <vector>

namespace moescope {

class ExpertColors {
 public:
  ExpertColors() = default;
  static ExpertColors byId(int n_experts, bool dark);
  static ExpertColors inOrder(const std::vector<int>& order, bool dark);

  QColor of(int expert) const;

 private:
  std::vector<QRgb> colors_;
};

}  // namespace moescope
