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

  double epsilon() const { return epsilon_->value(); }
  void setEpsilon(double epsilon) { epsilon_->setValue(epsilon); }
  QString conclusion() const { return conclusion_->text(); }  // rich text, a line per run

 protected:
  QString status() const override;

 private:
  void refill();
  QString conclude() const;

  const ComparedRuns* runs_;
  RunGaps gaps_;
  GapPlot* plot_;
  ConclusionLabel* conclusion_;
  QDoubleSpinBox* epsilon_;
};

}  // namespace moescope
