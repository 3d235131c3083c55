// A colour for each expert of a layer.
//
// Sixteen experts are distinguished by colour: the colours of Okabe and Ito, which are safe for colour-blind readers,
// and nine more. Further experts repeat them, so the number is always shown as well, in the legend, in the readout and
// on click. byId() keeps an expert's colour over time. inOrder() gives neighbours in an order (of co-activation)
// similar colours in three steps of lightness, so that experts chosen together share a hue.
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
