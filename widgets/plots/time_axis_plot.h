// The base of all plots over training steps, which share one visible range, one crosshair, one cursor and the markers
// through the Selection. The wheel zooms about the mouse; a drag zooms to a box; a middle drag, Shift+drag, or Space
// during a drag pans; a double click fits; a click moves the cursor. Keys: Left and Right move the cursor, + and -
// zoom, Home fits.
#pragma once

#include <algorithm>
#include <cmath>

#include "core/recording/marks.h"
#include "widgets/look/tokens.h"
#include "widgets/plots/plot_frame.h"
#include "widgets/selection/selection.h"

namespace moescope {

struct MarkTitle {
  QString text;    // empty: no room
  int left_x = 0;  // x of its first pixel
};
// Returns the title of a mark at `x`, which keeps `gap` pixels from it: the whole title at its right, up to
// `right_limit`; else the whole title at its left, from `left_limit`; else as many words as fit at its right.
MarkTitle titleBeside(int x, int gap, int left_limit, int right_limit, const QString& title,
                      const QFontMetrics& metrics);

class TimeAxisPlot : public PlotFrame {
  Q_OBJECT

 public:
  explicit TimeAxisPlot(Selection* selection, QWidget* parent = nullptr);
  void setLogSteps(bool log);
  bool logSteps() const { return log_steps_; }
  // Notes beside the caption of the axis, from long to short: "mean of 12 per column". Set in refill().
  void setStepNotes(const QStringList& notes) { step_notes_ = notes; }

 protected:
  StepRange range() const { return selection_->range(); }
  double xOf(double step) const;        // centre of a step, widget pixels
  std::int64_t stepAt(double x) const;  // step at x, clamped to the range
  void paintStepAxis(QPainter& painter) const;
  QString stepText(std::int64_t step) const;  // "step 480", "step 480, 11.8 million tokens"
  virtual void clickedAt(QPoint position) { selection_->setStep(stepAt(position.x())); }

  QMargins margins() const override;
  QRect bandAbove() const { return {0, 0, width(), plotRect().top()}; }  // area above the plot, for the legend
  int legendRow() const { return fontMetrics().height(); }
  bool isLow() const;  // true if the curves need the whole height
  void paintMarks(QPainter& painter) override;
  QPoint cursorPosition() const override;
  void followPicture() override;
  void paintOverlay(QPainter& painter) override;
  void takeHover() override { hovered_ = {selection_->hoverStep(), mouse_}; }
  QRegion hoverRegion() const override;
  bool event(QEvent* event) override;
  void wheelEvent(QWheelEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;
  void leaveEvent(QEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

  Selection* selection_;
  bool by_tokens_ = false;  // the axis counts tokens; set by plots of several runs
  int right_margin_ = 12;
  int legend_rows_ = 0;        // rows of text above the data; the last one has the caption
  bool marks_inside_ = false;  // markers are inside the plot, not above it

 private:
  enum class Drag { none, pressed, box, pan };
  // The coordinate on the axis is the step itself, or log10(step + 1).
  std::vector<Tick> stepTicks() const;
  double warp(double step) const { return log_steps_ ? std::log10(std::max(0.5, step + 1)) : step; }
  double unwarp(double coordinate) const { return log_steps_ ? std::pow(10.0, coordinate) - 1 : coordinate; }
  // Half a step is added at both ends, so that each step has an equal cell on the linear axis.
  double low() const { return warp(range().first - 0.5); }
  double high() const { return warp(std::max(range().first, range().last) + 0.5); }
  void zoomAbout(double x, double factor);
  void panFromPress(double x);
  const std::vector<Mark>& marks() const;
  QStringList stepCaptions() const;
  QString markerTextAt(int x) const;
  Readout readoutAtMouse() const;

  bool log_steps_ = false;
  QStringList step_notes_;
  mutable std::vector<Mark> marks_;
  mutable std::uint64_t marks_sequence_ = 0;
  mutable const History* marked_ = nullptr;  // run to which the marks belong
  StepRange seen_range_;
  struct Hover {
    std::int64_t step = -1;
    QPoint mouse{-1, -1};
  };
  Hover hovered_;
  Drag drag_ = Drag::none;
  QPoint press_;
  StepRange press_range_;
};

}  // namespace moescope
