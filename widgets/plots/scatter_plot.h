// Points on two logarithmic axes of the same range, with the diagonal x = y; or points in a plane, whose axes have the
// same unit, each point with its id if there is room. The readout names the point nearest to the mouse; a click or the
// arrow keys choose a point.
#pragma once

#include <vector>

#include "widgets/plots/color_scale.h"
#include "widgets/plots/plot_frame.h"

namespace moescope {

class ScatterPlot : public PlotFrame {
  Q_OBJECT

 public:
  enum class Axes { octaves, plane };
  struct Point {
    double x = 1, y = 1;  // octaves: 0 is drawn hollow at the low end of the axis; plane: NaN is not drawn
    std::uint8_t code = 0;
  };

  explicit ScatterPlot(QWidget* parent = nullptr, Axes axes = Axes::octaves);
  void setPoints(std::vector<Point> points);  // the index of a point is its id
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
  double reach(bool vertical) const;  // in a plane, the axis spans -reach to reach
  bool isDrawn(int point) const;
  std::vector<Tick> ticks(bool vertical) const;
  void paintIds(QPainter& painter) const;

  const Axes axes_;
  std::vector<Point> points_;
  QString x_caption_, y_caption_;
  LegendScale legend_;
  int octaves_ = 2;  // both axes reach from 2^-octaves_ to 2^octaves_
  int current_ = -1;
};

}  // namespace moescope
