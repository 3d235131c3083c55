// Published throughputs of DeepSeek-V3 on 256 B200s beside the throughputs of the step model, which are marked as
// fitted, predicted or only checked.
#pragma once

#include <QComboBox>

#include "core/cluster/published_runs.h"
#include "widgets/panel/panel.h"
#include "widgets/plots/band_bars.h"

namespace moescope {

class PublishedAndModelledPanel : public Panel {
  Q_OBJECT

 public:
  explicit PublishedAndModelledPanel(Selection* selection, QWidget* parent = nullptr);
  QString csv() const override;
  QString explain() const override;

 signals:
  void hypothesisChanged(Hypothesis hypothesis);

 protected:
  Answer answer() const override;

 private:
  Hypothesis hypothesis() const { return static_cast<Hypothesis>(std::max(0, hypothesis_->currentIndex())); }
  void compute();
  QString fittedText() const;
  QStringList describe(int row) const;

  BandBars* plot_;
  QComboBox* hypothesis_;
  std::vector<BarComparison> bars_;
  StepParameters parameters_;
  std::vector<int> bar_of_row_;  // bar of each row; -1: a heading
};

// Adds "H1: tokens split over TP" and "H2: tokens twice over TP", in the order of the enum.
void fillHypotheses(QComboBox* box);

}  // namespace moescope
