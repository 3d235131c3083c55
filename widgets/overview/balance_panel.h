// Balance of the load over steps: MaxVio of the batch and of the window with the value of chance, coefficient of
// variation, normalised entropy, unused experts.
#pragma once

#include "widgets/panel/figures_panel.h"

namespace moescope {

class BalancePanel : public FiguresPanel {
  Q_OBJECT

 public:
  explicit BalancePanel(Selection* selection, QWidget* parent = nullptr);

 protected:
  void decorate(int figure, LinePlot* plot, std::vector<ReferenceLine>* references) const override;
};

}  // namespace moescope
