// The whole run in one strip: loss, marks with what was done, the cursor to scrub with, the visible range with handles,
// and the findings as spans over their steps.
#pragma once

#include <QToolButton>

#include "core/telemetry/findings/findings.h"
#include "core/telemetry/recording/marks.h"
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
  // Of the active run: severe ones in the first lane, warnings in the second, notes and what is over in the third. A
  // click on one chooses its layer, its expert and the step at which it begins.
  void setFindings(std::vector<Finding> findings);
  QStringList spansAt(QPoint position) const;  // titles of the findings under it, the newest first
  QStringList textAt(QPoint position) const;   // of findings, marks or a checkpoint there
  QSize minimumSizeHint() const override { return {160, withType(58)}; }
  QSize sizeHint() const override { return {600, withType(60)}; }

 signals:
  void menuRequested(QPoint global, qint64 step);  // by mouse or the menu key

 protected:
  QMargins margins() const override {
    return {10, withType(12), 10, withType(17) + (findings_.empty() ? 0 : kLanes * kLane)};
  }
  QString staticKey() const override;
  void paintStatic(QPainter& painter) override;
  void paintData(QPainter& painter) override;
  void paintOverlay(QPainter& painter) override;
  QRegion hoverRegion() const override;
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
  static constexpr int kLanes = 3, kLane = 4;  // of findings; height
  enum class Drag { none, cursor, first, last, range };
  void fill();
  Drag grabbedAt(QPoint position) const;
  QRect rangeLane() const;      // the strip under the plot that holds the handles
  QRect lane(int place) const;  // of findings
  std::vector<const Finding*> findingsAt(QPoint position) const;
  void showStart(const Finding& finding);
  void paintFindings(QPainter& painter) const;
  void paintMarks(QPainter& painter) const;
  QStringList marksAt(int x) const;

  Selection* selection_;
  StepRange all_;
  std::vector<PyramidBin> loss_;
  std::vector<Mark> marks_;
  std::vector<Finding> findings_;
  std::vector<std::int64_t> checkpoints_;
  Drag drag_ = Drag::none;
  std::int64_t press_step_ = 0;
  StepRange press_range_;
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
