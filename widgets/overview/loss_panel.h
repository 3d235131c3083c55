// Loss, gradient norm, learning rate and the other figures of a whole run over steps.
#pragma once

#include <QCheckBox>
#include <QComboBox>
#include <QSlider>

#include "widgets/panel/panel.h"
#include "widgets/plots/line_plot.h"

namespace moescope {

class LossPanel : public Panel {
  Q_OBJECT

 public:
  explicit LossPanel(Selection* selection, QWidget* parent = nullptr);
  QString csv() const override;
  QString explain() const override;
  QVariantMap saveState() const override;
  void restoreState(const QVariantMap& state) override;

  Metric shownMetric() const;
  void setMetric(Metric metric);

 protected:
  QString status() const override;

 private:
  double smoothing() const;  // 0 to 0.999
  void setSmoothing(double factor);
  void refill();

  LinePlot* plot_;
  QComboBox* metric_;
  QSlider* smoothing_;
  QToolButton *log_values_, *log_steps_;
};

}  // namespace moescope
