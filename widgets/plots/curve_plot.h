// Curves over a number. One place can be marked; the arrow keys move the mark and read the curves there.
#pragma once

#include <algorithm>
#include <vector>

#include "widgets/plots/plot_frame.h"

namespace moescope {

class CurvePlot : public PlotFrame {
  Q_OBJECT

 public:
  struct Curve {
    QString label;
    int color = 0;                // index of seriesColor
    std::vector<QPointF> points;  // x ascending
  };

  using PlotFrame::PlotFrame;
  void setCurves(std::vector<Curve> curves);
  void setXAxis(const QString& caption, double low, double high) {
    x_caption_ = caption;
    low_ = low;
    high_ = high;
  }
  void setValueCaption(const QString& caption) { value_caption_ = caption; }  // shares, shown in percent
  void setMark(double x) { mark_ = x; }                                       // NaN: none
  std::function<QStringList(double x)> describe;
  double xAt(QPoint position) const { return std::clamp(xAxis().fromPixel(position.x()), low_, high_); }

 protected:
  QMargins margins() const override;
  QPoint cursorPosition() const override;
  void paintStatic(QPainter& painter) override;
  void paintData(QPainter& painter) override;
  void paintOverlay(QPainter& painter) override;
  QStringList readoutAt(QPoint position) const override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  Axis xAxis() const { return axisAcross(low_, high_); }
  Axis valueAxis() const { return axisUp(0, top_); }
  QStringList legendLabels() const;
  bool isLow() const;
  QString shownCaption() const;  // caption; empty in a low plot

  std::vector<Curve> curves_;
  QString x_caption_, value_caption_;
  double low_ = 0, high_ = 1, top_ = 1, mark_ = kNoValue;
};

}  // namespace moescope
