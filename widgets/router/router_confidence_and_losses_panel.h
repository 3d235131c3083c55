// Confidence of the router, and its losses. Over time: entropy of a token's scores, dependence of the choice on the
// token, margin, auxiliary and z loss. At a step: histograms of scores and margins.
#pragma once

#include "widgets/panel/figures_panel.h"
#include "widgets/panel/view_switch.h"
#include "widgets/router/scores_view.h"

namespace moescope {

class RouterConfidenceAndLossesPanel : public FiguresPanel {
  Q_OBJECT

 public:
  explicit RouterConfidenceAndLossesPanel(Selection* selection, QWidget* parent = nullptr);
  ValueTable table() const override { return atAStep() ? scores_->table() : FiguresPanel::table(); }
  void showView(int view);  // 0: over time, 1: at a step

 protected:
  QString status() const override;
  Answer answer() const override;

 private:
  bool atAStep() const { return switch_->current() == 1; }

  ViewSwitch* switch_;
  QComboBox* layers_;
  ScoresView* scores_;
};

}  // namespace moescope
