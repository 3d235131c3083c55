// Shows the view of a lesson's step: a workspace with the panels that the step names, some of them framed, and a
// selection.
#pragma once

#include <QList>
#include <QString>
#include <QStringList>
#include <QVariantMap>

#include "app/lessons/run_multiples.h"
#include "core/lessons/lesson.h"

namespace moescope {

class PanelDock;
class Panel;
class Selection;
class Workspace;
class WorkspaceTabs;

class LessonPanels {
 public:
  LessonPanels(Selection* selection, WorkspaceTabs* workspaces);

  // Returns panels and workspaces that the lesson names but the window does not have.
  static QStringList unknown(const Lesson& lesson, const QList<Workspace*>& workspaces);

  // Resets the panels' settings and the selection to those at the start of the program. The next show() arranges the
  // panels again.
  void startAfresh();
  void selectNothing();  // selects run A, its first MoE layer, no expert, all steps and the newest one
  void show(const LessonView& view);
  void clearHighlights();
  void leave();                   // removes highlights and panels of single runs
  void showVerdicts(bool shown);  // shows or hides the verdicts, which may give the answer away

 private:
  void arrange(Workspace* workspace, const LessonView& view) const;
  void highlight(const LessonView& view);
  void showEachRun(const LessonView& view);

  Selection* selection_;
  WorkspaceTabs* workspaces_;
  struct InitialState {
    Panel* panel;
    QVariantMap state;
  };
  QList<InitialState> initial_;
  QString arranged_;  // arranged workspace and panels
  QList<PanelDock*> highlights_;
  RunMultiples multiples_;
};

}  // namespace moescope
