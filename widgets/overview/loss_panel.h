// Loss, gradient norm, learning rate and other figures of whole runs over steps.
#pragma once

#include <QComboBox>

#include "widgets/panel/panel.h"
#include "widgets/plots/line_plot.h"

namespace moescope {

class LossPanel : public Panel {
  Q_OBJECT

 public:
  explicit LossPanel(Selection* selection, QWidget* parent = nullptr);
  ValueTable table() const override;
  QString explain() const override;

  Metric shownMetric() const;
  void setMetric(Metric metric);

 protected:
  QString status() const override;
  Answer answer() const override;

 private:
  int smoothing() const { return smoothing_->currentData().toInt(); }  // steps of the mean; 0: none
  int shownSmoothing(const History& history) const;                    // the same; 0 also for a run that has no mean
  void setSmoothing(int steps) { smoothing_->setCurrentIndex(std::max(0, smoothing_->findData(steps))); }
  void showHeading();
  void refill();

  LinePlot* plot_;
  QComboBox* metric_;
  QComboBox* smoothing_;
  QToolButton *log_values_, *log_steps_;
};

}  // namespace moescope
