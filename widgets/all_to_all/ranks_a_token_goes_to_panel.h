// Spread of tokens over ranks and nodes, and imbalance of their arrival, over time.
#pragma once

#include "widgets/panel/figures_panel.h"

namespace moescope {

class RanksATokenGoesToPanel : public FiguresPanel {
  Q_OBJECT

 public:
  explicit RanksATokenGoesToPanel(Selection* selection, QWidget* parent = nullptr);

 protected:
  Answer answer() const override;
  void decorate(int figure, LinePlot* plot, std::vector<ReferenceLine>* references) const override;
};

}  // namespace moescope
