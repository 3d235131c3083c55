// The whole run in one strip: loss, marks with titles, the cursor, which can be dragged, the visible range with
// handles, and findings as spans over their steps.
#pragma once

#include <QLabel>
#include <QToolButton>
#include <cmath>

#include "core/findings/findings.h"
#include "core/recording/marks.h"
#include "widgets/plots/plot_frame.h"
#include "widgets/selection/selection.h"

namespace moescope {

class TimelineTrack : public PlotFrame {
  Q_OBJECT

 public:
  explicit TimelineTrack(Selection* selection, QWidget* parent = nullptr);
  std::vector<Tick> ticks() const;
  double exactX(double step) const;
  int xOf(double step) const { return to_int(std::lround(exactX(step))); }
  std::int64_t stepAt(double x) const;
  std::int64_t noteOrStepAt(int x) const;  // the step of the note whose flag is at x, else the step at x
  // Steps of checkpoints, drawn as ticks with a context menu.
  void setCheckpoints(const std::vector<std::int64_t>& steps);
  // Sets the findings of the active run, which are coloured parts of the bar: severe findings above warnings, past
  // findings paler. A click on a finding selects its layer, its expert and its first step.
  void setFindings(std::vector<Finding> findings);
  QStringList spansAt(QPoint position) const;  // titles of the findings at a position, the uppermost first
  QStringList textAt(QPoint position) const;   // text of findings, marks or a checkpoint at a position
  QSize minimumSizeHint() const override { return {160, withType(38)}; }
  QSize sizeHint() const override { return {600, withType(38)}; }
  bool isDragged() const { return drag_ != Drag::none; }

 signals:
  void menuRequested(QPoint global, qint64 step);  // by the mouse or the menu key
  void dragEnded();

 protected:
  QMargins margins() const override { return {12, withType(4), 12, withType(22)}; }
  void paintStatic(QPainter& painter) override;
  void paintData(QPainter& painter) override;
  void paintOverlay(QPainter& painter) override;
  void paintPrintedOverlay(QPainter& painter) override { paintOverlay(painter); }  // markers and the cursor
  bool event(QEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent*) override { selection_->fitRange(); }
  void contextMenuEvent(QContextMenuEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  enum class Drag { none, cursor, first, last, range };
  void fill();
  Drag grabbedAt(QPoint position) const;
  QRect lane() const;  // the lane below the curve, with the visible range, its handles, and the findings
  bool showsAll() const { return selection_->showsAll(); }
  std::vector<const Finding*> findingsAt(QPoint position) const;
  void showStart(const Finding& finding);
  void paintLane(QPainter& painter) const;
  void paintFindings(QPainter& painter) const;
  void paintFlags(QPainter& painter) const;
  void paintCursor(QPainter& painter) const;
  QStringList marksAt(int x) const;

  Selection* selection_;
  StepRange all_;
  std::vector<PyramidBin> loss_;
  std::vector<Mark> marks_;
  std::vector<Finding> findings_;  // without notes, in the order of painting
  std::vector<std::int64_t> checkpoints_;
  Drag drag_ = Drag::none;
  QPoint pressed_;
  std::int64_t press_step_ = 0;
  StepRange press_range_;
};

// The timeline on a panel's ground, with the steps to which the time axes are zoomed and the button that keeps the
// cursor on the newest step. Shown while a run is open.
class TimelineBar : public QWidget {
  Q_OBJECT

 public:
  explicit TimelineBar(Selection* selection, QWidget* parent = nullptr);
  TimelineTrack* track() const { return track_; }

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  void takeFollowing();
  void takeZoom();

  Selection* selection_;
  TimelineTrack* track_;
  QLabel* zoom_;
  QToolButton* follow_;
};

}  // namespace moescope
