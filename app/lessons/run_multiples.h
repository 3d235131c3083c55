// Shows a panel once for every open run, for lessons whose runs differ in one setting. All copies share layer, expert,
// steps and crosshair.
#pragma once

#include <QList>
#include <QPointer>
#include <QWidget>

#include "widgets/selection/selection.h"

class QDockWidget;

namespace moescope {

class Panel;

// A selection that follows `leader` but keeps its run. Zooming in one of its panels zooms the leader.
class SelectionOfRun : public Selection {
  Q_OBJECT

 public:
  SelectionOfRun(Selection* leader, int run, QObject* parent);

 private:
  void takeData();
  void takeTime();
  void giveTime();
  void takeFocus();

  Selection* leader_;
  const int place_;
  bool syncing_ = false;
};

class RunMultiples {
 public:
  explicit RunMultiples(Selection* selection) : selection_(selection) {}
  ~RunMultiples() { end(); }

  // Multiplies a panel of the load over time if several runs are open; does nothing for other panels.
  void show(QDockWidget* dock);
  void end();
  const QList<Panel*>& panels() const { return panels_; }

 private:
  Selection* selection_;
  QPointer<QDockWidget> dock_;
  QPointer<QWidget> own_;  // the dock's own widget while it shows multiples
  QList<Panel*> panels_;
};

}  // namespace moescope
