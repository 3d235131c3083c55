// Balance of the load. Over time: MaxVio of the batch and of the window with the value of chance, variation, entropy,
// unused experts, what the fullest rank receives, and to how many ranks and nodes a token is sent. All layers: MaxVio
// of the median, 90 % and worst layer over steps. By layer: MaxVio of every layer over steps. Capacity: copies that a
// router with a capacity factor would drop, rows that would fill its experts, and rows of zeros of padding.
#pragma once

#include <QStackedWidget>

#include "widgets/panel/figures_panel.h"
#include "widgets/plots/curve_plot.h"
#include "widgets/plots/time_heat_map.h"

namespace moescope {

class BalancePanel : public FiguresPanel {
  Q_OBJECT

 public:
  static constexpr std::array<std::uint32_t, 4> kAlignments = {8, 16, 32, 128};  // rows to which groups are padded

  explicit BalancePanel(Selection* selection, QWidget* parent = nullptr);
  ValueTable table() const override;

 protected:
  QString status() const override;
  Answer answer() const override;

 private:
  enum View { figures, all_layers, by_layer, capacity };

  View view() const { return static_cast<View>(view_->currentIndex()); }
  bool window() const { return span_->currentIndex() == 1; }
  Metric shownMetric() const { return window() ? Metric::max_vio_window : Metric::max_vio; }
  Metric percentileMetric(int percentile) const;  // 0: median, 1: 90 %, 2: worst
  void addViews(QWidget* parent);
  void addLayersMap();
  void addCapacity();
  void offerCapacity();
  void showView();
  QString whyNothing() const;
  void refillLines();
  void refillLayers();
  void refillCapacity();
  std::vector<std::uint8_t> fetchLayers(StepRange range, int bins) const;
  ValueTable tableOfLayers(StepRange range) const;
  ValueTable tableOfCapacity(double factor) const;
  double capacityFactor() const;  // of the run; 1.25 if it has none
  Answer answerOfCapacity() const;

  QComboBox *view_, *span_;
  QStackedWidget* stack_;
  LinePlot* lines_;
  TimeHeatMap* layers_map_;
  CurvePlot* capacity_;
};

}  // namespace moescope
