// Tokens that a run routes to other experts than run A does: how many over steps and by layer, and at what margins.
#pragma once

#include <QStackedWidget>

#include "widgets/compared_runs.h"
#include "widgets/half_octave_plot.h"
#include "widgets/line_plot.h"
#include "widgets/panel.h"
#include "widgets/time_heat_map.h"

namespace moescope {

class FlipsPanel : public Panel {
  Q_OBJECT

 public:
  explicit FlipsPanel(Selection* selection, QWidget* parent = nullptr);
  QString csv() const override;
  QString explain() const override;
  QVariantMap saveState() const override;
  void restoreState(const QVariantMap& state) override;

  void showLayers(bool layers);  // layer x step of one run instead of the runs' means
  HalfOctavePlot* margins() const { return margins_; }

 protected:
  QString status() const override;

 private:
  QString whyNothing() const;  // empty: there is something to show
  const History* shown() const;
  std::shared_ptr<const TelemetryFrame> frame() const;
  void refillLines();
  void refillLayers();
  void refillMargins();
  QStringList describe(int row, std::int64_t step) const;

  LinePlot* lines_;
  TimeHeatMap* layers_;
  HalfOctavePlot* margins_;
  QStackedWidget* stack_;
  QToolButton* by_layer_;
};

}  // namespace moescope
