// Points in a plane, whose axes have the same unit, each point with its id if there is room. The readout names the
// point nearest to the mouse; a click or the arrow keys choose a point.
#pragma once

#include <cmath>
#include <vector>

#include "widgets/plots/color_scale.h"
#include "widgets/plots/plot_frame.h"

namespace moescope {

class ScatterPlot : public PlotFrame {
  Q_OBJECT

 public:
  struct Point {
    double x = 1, y = 1;  // NaN is not drawn
    std::uint8_t code = 0;
  };

  explicit ScatterPlot(QWidget* parent = nullptr) : PlotFrame(parent) {}
  void setPoints(std::vector<Point> points) { points_ = std::move(points); }  // the index of a point is its id
  void setAxes(const QString& x_caption, const QString& y_caption) {
    x_caption_ = x_caption;
    y_caption_ = y_caption;
  }
  void setLegend(const LegendScale& scale) { legend_ = scale; }
  void setCurrent(int point) { current_ = point; }
  std::function<QStringList(int point)> describe;
  QPointF placeOf(int point) const;    // widget pixels
  int nearest(QPoint position) const;  // -1: no point is near

 signals:
  void pointChosen(int point);

 protected:
  QMargins margins() const override { return {axisLabelWidth(), fontMetrics().height() + 4, 12, axisLabelHeight()}; }
  void paintStatic(QPainter& painter) override;
  void paintData(QPainter& painter) override;
  void paintOverlay(QPainter& painter) override;
  QStringList readoutAt(QPoint position) const override;
  void mousePressEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  Axis axis(bool vertical) const;
  double reach(bool vertical) const;  // the axis spans -reach to reach
  bool isDrawn(int point) const { return !std::isnan(points_[point].x); }
  std::vector<Tick> ticks(bool vertical) const;
  void paintIds(QPainter& painter) const;

  std::vector<Point> points_;
  QString x_caption_, y_caption_;
  LegendScale legend_;
  int current_ = -1;
};

}  // namespace moescope
