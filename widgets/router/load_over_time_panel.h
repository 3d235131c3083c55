// Load of every expert of the chosen layer over steps, on the scale of the expert load.
#pragma once

#include <vector>

#include "widgets/panel/layer_combo.h"
#include "widgets/panel/panel.h"
#include "widgets/plots/plot_frame.h"
#include "widgets/plots/time_heat_map.h"
#include "widgets/router/load_maps.h"
#include "widgets/router/load_scale_button.h"

namespace moescope {

// The fullest experts of a layer at a step, as bars beside the map of the load, and the number of experts without
// tokens.
class FullestExperts : public PlotFrame {
  Q_OBJECT

 public:
  struct Row {
    int expert = 0;
    double load = 0;  // 1: the fair share
  };

  explicit FullestExperts(QWidget* parent = nullptr);
  void setRows(std::vector<Row> rows);  // the fullest first
  void setWithoutTokens(int experts, int of);
  int rowsThatFit() const;
  QSize sizeHint() const override;

 signals:
  void expertChosen(int expert);

 protected:
  QMargins margins() const override { return {0, fontMetrics().height() + 4, 0, 0}; }
  void paintStatic(QPainter& painter) override;
  void paintData(QPainter& painter) override;
  QStringList readoutAt(QPoint position) const override;
  void mousePressEvent(QMouseEvent* event) override;

 private:
  int rowHeight() const { return fontMetrics().height() + 2; }
  int rowAt(QPoint position) const;  // -1: none
  void paintWithout(QPainter& painter, int top) const;

  std::vector<Row> rows_;
  int without_ = 0, of_ = 0;
};

class LoadOverTimePanel : public Panel {
  Q_OBJECT

 public:
  explicit LoadOverTimePanel(Selection* selection, QWidget* parent = nullptr);
  QString csv() const override;

 protected:
  QString status() const override { return timeStatus(selection_->step(), true); }
  Answer answer() const override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  void addViews();
  void refill();
  void refillFullest();
  const RouterFrame* router() const;  // router of the selected layer at the cursor; nullptr: none
  QStringList describe(int expert, std::int64_t step) const;
  QString columnText(int expert, std::int64_t step) const;

  // Summary of the steps that share a pixel.
  Summary summary() const { return summary_->currentIndex() == 0 ? Summary::mean : Summary::farthest; }

  TimeHeatMap* plot_;
  FullestExperts* fullest_;
  mutable std::shared_ptr<const TelemetryFrame> frame_;
  ExpertOrders orders_;
  QComboBox *summary_, *sort_;
  LoadScaleButton* scale_;
};

}  // namespace moescope
