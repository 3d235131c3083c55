// A colour for each expert of a layer.
//
// A few experts are easy to distinguish by colour. For 64 and more no palette is enough, so the number is always shown
// as well, in the legend, in the readout and on click. The colours are those of Okabe and Ito, which are safe for
// colour-blind readers, in three steps of lightness. byId() separates neighbours by the golden ratio, and an expert
// keeps its colour over time. inOrder() gives neighbours in an order (of co-activation) similar colours, so that
// experts chosen together share a hue.
#pragma once

#include <QColor>
#include <vector>

namespace moescope {

class ExpertColors {
 public:
  ExpertColors() = default;
  static ExpertColors byId(int n_experts, bool dark);
  static ExpertColors inOrder(const std::vector<int>& order, bool dark);

  QColor colorOf(int expert) const;

 private:
  std::vector<QRgb> colors_;
};

}  // namespace moescope
