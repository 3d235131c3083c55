// A number line with the representable values of one or more formats, and a block's values rounded to them.
//
// The line is linear, or logarithmic on both sides of zero: the distance from the middle is the logarithm of |v|, and
// values below half the smallest subnormal are in the middle. The wheel zooms about the mouse, a drag pans, a double
// click or Home fits, + and - zoom, Left and Right pan.
#pragma once

#include <vector>

#include "widgets/plots/plot_frame.h"

namespace moescope {

class NumberLine : public PlotFrame {
  Q_OBJECT

 public:
  explicit NumberLine(QWidget* parent = nullptr);

  struct Points {
    QString label;              // "E4M3"
    std::vector<float> values;  // ascending
  };
  struct Mark {
    double value = 0;    // before rounding
    double rounded = 0;  // on one of the points
    QString label;
    bool lost = false;  // clipped or flushed to zero: drawn as a cross
  };
  void setPoints(std::vector<Points> rows);
  void setMarks(std::vector<Mark> marks);
  void setCurrentMark(int mark);  // -1: none
  void setLog(bool log);
  void setCaption(const QString& caption);
  void fit();
  // The ends of the visible range, as values.
  double low() const { return valueOf(low_); }
  double high() const { return valueOf(high_); }

 protected:
  QMargins margins() const override;
  void paintStatic(QPainter& painter) override;
  void paintData(QPainter& painter) override;
  void paintOverlay(QPainter& painter) override;
  QStringList readoutAt(QPoint position) const override;
  void wheelEvent(QWheelEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent*) override { fit(); }
  void keyPressEvent(QKeyEvent* event) override;

 private:
  // The coordinate on the axis is the value itself, or sign(v) * log2(|v| / least_).
  double coordinate(double value) const;
  double valueOf(double coordinate) const;
  double xOf(double value) const;
  int rowHeight() const { return rows_.empty() ? 1 : plotRect().height() / static_cast<int>(rows_.size()); }
  std::vector<Tick> ticks() const;
  void zoomAbout(double x, double factor);
  void panBy(double share);
  void showRange(double low, double high);

  std::vector<Points> rows_;
  std::vector<Mark> marks_;
  int current_ = -1;
  bool log_ = false;
  QString caption_;
  double least_ = 1, extent_ = 1;  // values below least_ are in the middle of a log line; largest magnitude
  double low_ = -1, high_ = 1;     // coordinates
  QPoint press_;
  double press_low_ = 0, press_high_ = 0;
};

}  // namespace moescope
