// Confidence of the router over steps, and its losses: entropy of a token's scores, dependence of the choice on the
// token, margin, load-balance and z loss.
#pragma once

#include "widgets/panel/figures_panel.h"

namespace moescope {

class RouterConfidenceAndLossesPanel : public FiguresPanel {
  Q_OBJECT

 public:
  explicit RouterConfidenceAndLossesPanel(Selection* selection, QWidget* parent = nullptr);

 protected:
  void decorate(int figure, LinePlot* plot, std::vector<ReferenceLine>* references) const override;
  QString whyNothing(int figure) const override;
};

}  // namespace moescope
