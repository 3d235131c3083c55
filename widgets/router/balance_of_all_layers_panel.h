// MaxVio of all MoE layers: median, 90 % and worst layer over steps with the value of chance; layer by layer; or, at
// one step, the distribution of the experts' load within each layer.
#pragma once

#include <QComboBox>
#include <QStackedWidget>

#include "widgets/panel/panel.h"
#include "widgets/plots/line_plot.h"
#include "widgets/plots/percentile_plot.h"
#include "widgets/plots/time_heat_map.h"

namespace moescope {

class BalanceOfAllLayersPanel : public Panel {
  Q_OBJECT

 public:
  explicit BalanceOfAllLayersPanel(Selection* selection, QWidget* parent = nullptr);
  QString csv() const override;

 protected:
  QString status() const override { return timeStatus(selection_->step(), view_->currentIndex() == within_layers); }
  Answer answer() const override;

 private:
  enum View { over_time, by_layer, within_layers };

  bool window() const { return span_->currentIndex() == 1; }
  Metric shownMetric() const { return window() ? Metric::max_vio_window : Metric::max_vio; }
  Metric percentileMetric(int percentile) const;  // 0: median, 1: 90 %, 2: worst
  QString whyNothing() const;
  void refillLines();
  void refillLayers();
  void refillSpread();
  std::vector<std::uint8_t> fetchLayers(StepRange range, int bins) const;
  QStringList describeLayer(int row, std::int64_t step) const;
  QStringList describeSpread(int layer) const;

  QComboBox *view_, *span_;
  QStackedWidget* stack_;
  LinePlot* lines_;
  TimeHeatMap* layers_;
  PercentilePlot* spread_;
};

}  // namespace moescope
