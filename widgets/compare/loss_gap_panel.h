// Gaps of the runs to run A over the steps, beside the band that is too small to matter.
#pragma once

#include <QComboBox>

#include "widgets/compare/gap_plot.h"
#include "widgets/compare/judged_runs.h"
#include "widgets/panel/panel.h"

namespace moescope {

class LossGapPanel : public Panel {
  Q_OBJECT

 public:
  LossGapPanel(Selection* selection, const ComparedRuns* runs, JudgedRuns* judged, QWidget* parent = nullptr);
  QString csv() const override;
  QString explain() const override;

 protected:
  QString status() const override;
  Answer answer() const override;

 private:
  void refill();
  Answer answerOnTexts() const;
  StepRange judgedSteps() const;  // judged steps of the first candidate
  QStringList lettersOf(const std::vector<int>& places) const;

  const ComparedRuns* runs_;
  JudgedRuns* judged_;
  GapPlot* plot_;
  QComboBox* shown_;
};

}  // namespace moescope
