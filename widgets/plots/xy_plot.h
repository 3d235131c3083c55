// Points and curves over a number. Marks differ in shape and lines in dashes, so that kinds can be distinguished
// without colours; the readout names the point nearest to the mouse.
#pragma once

#include <vector>

#include "widgets/plots/plot_frame.h"

namespace moescope {

class XyPlot : public PlotFrame {
  Q_OBJECT

 public:
  enum class Mark { none, disc, ring, diamond };
  struct Series {
    QString label;
    int color = 0;  // index of seriesColor
    Mark mark = Mark::disc;
    Qt::PenStyle line = Qt::NoPen;
    std::vector<QPointF> points;
    std::vector<QString> names{};  // names of the points for the readout; may be empty
    std::vector<QString> tags{};   // texts beside the points; may be empty
  };

  using PlotFrame::PlotFrame;
  void setSeries(std::vector<Series> series);
  void setCaptions(const QString& x, const QString& y) {
    x_caption_ = x;
    y_caption_ = y;
  }
  void setAtLeastShown(ValueRange x, ValueRange y) {
    least_x_ = x;
    least_y_ = y;
  }
  // Sets a horizontal line.
  void setReference(double y, const QString& label) {
    reference_ = y;
    reference_label_ = label;
  }

 protected:
  QMargins margins() const override;
  void paintStatic(QPainter& painter) override;
  void paintData(QPainter& painter) override;
  QStringList readoutAt(QPoint position) const override;

 private:
  Axis xAxis() const { return axisAcross(x_.low, x_.high); }
  Axis yAxis() const { return axisUp(y_.low, y_.high); }
  QPointF place(const QPointF& point) const { return {xAxis().toPixel(point.x()), yAxis().toPixel(point.y())}; }
  double lineWidth() const;
  void paintTags(QPainter& painter) const;
  void paintMark(QPainter& painter, const QPointF& at, const Series& series) const;

  std::vector<Series> series_;
  QString x_caption_, y_caption_, reference_label_;
  ValueRange least_x_, least_y_, x_, y_;
  double reference_ = kNoValue;
};

}  // namespace moescope
