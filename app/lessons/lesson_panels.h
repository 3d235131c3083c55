// Shows the view of a lesson's step: a workspace with the panels that the step names, some of them framed, and a
// selection.
#pragma once

#include <QList>
#include <QPointer>
#include <QString>
#include <QStringList>
#include <QVariantMap>
#include <QWidget>

#include "core/lessons/lesson.h"
#include "widgets/selection/selection.h"

class QDockWidget;

namespace moescope {

class Panel;
class Workspace;
class WorkspaceTabs;

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

// Shows a panel once for every open run, for lessons whose runs differ in one setting. All copies share layer, expert,
// steps and crosshair.
class RunMultiples {
 public:
  explicit RunMultiples(Selection* selection) : selection_(selection) {}
  ~RunMultiples() { end(); }

  // Shows the panels of load and bias over time, of an expert, and of specialisation once for every run if several runs
  // are open. Other panels are shown as they are.
  void show(const QList<QDockWidget*>& docks);
  void end();

 private:
  void multiply(QDockWidget* dock);

  Selection* selection_;
  QList<QDockWidget*> docks_;                                 // of show()
  QList<std::pair<QPointer<QDockWidget>, Panel*>> replaced_;  // docks with multiples, and their own panels
  std::vector<std::shared_ptr<const History>> shown_;         // runs of the multiples
};

class LessonPanels {
 public:
  LessonPanels(Selection* selection, WorkspaceTabs* workspaces);

  // Returns panels and workspaces that the lesson names but the window does not have.
  static QStringList unknown(const Lesson& lesson, const WorkspaceTabs& workspaces);

  // Hides the verdicts and resets the panels' settings and the selection to those at the start of the program. The next
  // show() arranges the panels again.
  void startAfresh();
  // `cover`: text instead of what the panels show. `locked`: their controls wait for a prediction, since another view,
  // format or layer may show the answer.
  void show(const LessonView& view, const QString& cover, bool locked);
  void fitSteps() { selection_->fitRange(); }  // shows all steps and follows the training
  void leave();  // removes frames, covers and panels of single runs, and shows the verdicts

 private:
  void arrange(Workspace* workspace, const LessonView& view);
  void restoreArranged(Workspace* next);
  void mark(const LessonView& view, const QString& cover, bool locked) const;
  void showVerdicts(bool shown) const;

  Selection* selection_;
  WorkspaceTabs* workspaces_;
  QList<std::pair<Panel*, QVariantMap>> initial_;  // panels and their states at the start of the program
  QString arranged_;                               // arranged workspace and panels
  Workspace* arranged_workspace_ = nullptr;        // has the panels of a step alone
  RunMultiples multiples_;
};

}  // namespace moescope
