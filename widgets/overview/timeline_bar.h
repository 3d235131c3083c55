// The whole run in one strip: loss, markers, the cursor to scrub with, the visible range with handles.
#pragma once

#include <QToolButton>

#include "widgets/plots/plot_frame.h"
#include "widgets/selection/selection.h"

namespace moescope {

class TimelineTrack : public PlotFrame {
  Q_OBJECT

 public:
  explicit TimelineTrack(Selection* selection, QWidget* parent = nullptr);
  std::vector<Tick> ticks() const;
  int xOf(double step) const;
  std::int64_t stepAt(double x) const;
  std::int64_t noteOrStepAt(int x) const;  // the step of the note whose flag is at x, else the step at x
  void setCheckpoints(const std::vector<std::int64_t>& steps);  // drawn as ticks, which have a context menu
  QSize minimumSizeHint() const override { return {160, 52}; }
  QSize sizeHint() const override { return {600, 56}; }

 signals:
  void menuRequested(QPoint global, qint64 step);  // by mouse or the menu key

 protected:
  QMargins margins() const override { return {10, 12, 10, 17}; }
  QString staticKey() const override;
  void paintStatic(QPainter& painter) override;
  void paintData(QPainter& painter) override;
  void paintOverlay(QPainter& painter) override;
  void paintPrintedOverlay(QPainter& painter) override { paintOverlay(painter); }  // markers and the cursor
  bool event(QEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;
  void leaveEvent(QEvent* event) override;
  void contextMenuEvent(QContextMenuEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  enum class Drag { none, cursor, first, last, range };
  void fill();
  Drag grabbedAt(QPoint position) const;
  QRect rangeLane() const;  // the strip under the plot that holds the handles
  QString markerTextAt(int x) const;

  Selection* selection_;
  StepRange all_;
  std::vector<PyramidBin> loss_;
  std::vector<Marker> markers_;
  std::vector<std::int64_t> checkpoints_;
  Drag drag_ = Drag::none;
  std::int64_t press_step_ = 0;
  StepRange press_range_;
  int mouse_x_ = -1;
};

class TimelineBar : public QWidget {
  Q_OBJECT

 public:
  explicit TimelineBar(Selection* selection, QWidget* parent = nullptr);
  TimelineTrack* track() const { return track_; }

 private:
  TimelineTrack* track_;
  QToolButton* follow_;
};

}  // namespace moescope
