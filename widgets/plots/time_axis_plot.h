// The base of all plots over training steps, linked through the Selection: one visible range, one crosshair, one
// cursor, the markers. Wheel zooms about the mouse, drag zooms to a box, middle drag, Shift+drag or Space during a drag
// pans, double click fits, click moves the cursor. Keys: Left and Right move the cursor, + and - zoom, Home fits.
#pragma once

#include <optional>

#include "widgets/plots/plot_frame.h"
#include "widgets/selection/selection.h"

namespace moescope {

class TimeAxisPlot : public PlotFrame {
  Q_OBJECT

 public:
  explicit TimeAxisPlot(Selection* selection, QWidget* parent = nullptr);
  void setLogSteps(bool log);
  bool logSteps() const { return log_steps_; }
  // Without labels when another plot with the same axis stands right below.
  void setStepLabelsShown(bool shown);
  // Beside the caption of the axis, set in refill: "mean of 12 a column".
  void setStepNote(const QString& note) { step_note_ = note; }

 protected:
  StepRange range() const { return selection_->range(); }
  double xOf(double step) const;                // centre of a step, widget pixels
  std::int64_t stepAt(double x) const;          // clamped to the range
  void paintStepAxis(QPainter& painter) const;  // part of the static layer
  virtual void clickedAt(QPoint position);

  QMargins margins() const override;
  QRect bandAbove() const {  // the plot, for the legend
    const QRect plot = plotRect();
    return {plot.left(), 0, plot.width(), plot.top()};
  }
  int legendTop() const { return plotRect().top() - legend_rows_ * legendRow() - 9; }
  int legendRow() const { return fontMetrics().height() + 2; }
  QPoint cursorPosition() const override;
  void followPicture() override;
  QString staticKey() const override;
  void paintOverlay(QPainter& painter) override;
  QRegion hoverRegion() const override;
  QStringList linesAtMouse() const override;
  bool event(QEvent* event) override;
  void wheelEvent(QWheelEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;
  void leaveEvent(QEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

  Selection* selection_;
  int right_margin_ = 12;
  int legend_rows_ = 0;  // of text, above the marks and the data

 private:
  enum class Drag { none, pressed, box, pan };
  // Axis coordinate: the step itself, or log10(step + 1).
  std::vector<Tick> stepTicks() const;
  double warp(double step) const;
  double unwarp(double coordinate) const;
  double low() const;
  double high() const;
  void zoomAbout(double x, double factor);
  void panFromPress(double x);
  bool isUnderMouse() const;
  std::int64_t crosshairStep() const;  // -1: nowhere
  void paintMarkers(QPainter& painter) const;
  QString markerTextAt(int x) const;

  bool log_steps_ = false;
  bool labels_shown_ = true;
  QString step_note_;
  StepRange seen_range_;
  Drag drag_ = Drag::none;
  QPoint press_;
  StepRange press_range_;
};

}  // namespace moescope
