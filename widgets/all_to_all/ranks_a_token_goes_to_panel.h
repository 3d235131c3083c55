// How far tokens are spread over ranks and nodes, and how unevenly they arrive, over time.
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
