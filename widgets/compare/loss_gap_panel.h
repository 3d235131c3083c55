// Whether the difference of losses is more than chance: gaps of the runs B to D to run A, the seed-noise band, and a
// conclusion.
#pragma once

#include <QDoubleSpinBox>

#include "widgets/compare/gap_plot.h"
#include "widgets/panel/conclusion_label.h"
#include "widgets/panel/panel.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {

class LossGapPanel : public Panel {
  Q_OBJECT

 public:
  LossGapPanel(Selection* selection, const ComparedRuns* runs, QWidget* parent = nullptr);
  QString csv() const override;
  QString explain() const override;
  QVariantMap saveState() const override;
  void restoreState(const QVariantMap& state) override;

 protected:
  QString status() const override;

 private:
  double epsilon() const { return epsilon_->value(); }
  void refill();
  QString conclude() const;

  const ComparedRuns* runs_;
  RunGaps gaps_;
  GapPlot* plot_;
  ConclusionLabel* conclusion_;  // a line per run
  QDoubleSpinBox* epsilon_;
};

}  // namespace moescope
