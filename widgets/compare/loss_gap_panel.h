// Whether a run is good enough: gaps of the runs B to D to run A, what chance makes of them, and a verdict that says
// what the formats cost besides.
#pragma once

#include <QDoubleSpinBox>
#include <QPushButton>

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

  // Whether another twin can be trained beside the open runs.
  void setRoomForTwin(bool room);
  // Of a step of all open runs, as measured just now; kNoValue: they do not train, or not side by side.
  void setSecondsPerStep(float seconds) { seconds_per_step_ = seconds; }

 signals:
  void twinRequested();  // one that shows what chance does

 protected:
  QString status() const override;

 private:
  double epsilon() const { return epsilon_->value(); }
  void refill();
  double matters() const { return matters_->value() / 100; }  // share of run A's loss
  // Above a low plot stand the verdicts alone; the rest is in their tooltip.
  enum class Words { all, verdicts };
  QString conclude(Words wanted) const;
  bool leavesNoPlot(const QString& words) const;
  const Conclusion& deciding(int run) const;  // by the validation loss, if it is measured, or the training loss
  QString verdictOf(int run, Words wanted) const;
  QString timeUntil(std::int64_t steps) const;
  QString twinsText(Words wanted) const;
  void offerTwin();

  const ComparedRuns* runs_;
  RunGaps gaps_, validation_{Metric::val_loss};
  GapPlot* plot_;
  ConclusionLabel* conclusion_;  // a line per run
  QPushButton* add_twin_;
  QDoubleSpinBox *matters_, *epsilon_;
  bool room_for_twin_ = false;
  float seconds_per_step_ = kNoValue;
};

}  // namespace moescope
