// What a step of a lesson shows: a workspace with the panels that the step speaks of, some of them framed, and what is
// chosen in them.
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

  // Panels and workspaces that the lesson names and the window does not have; empty: all are there.
  static QStringList unknown(const Lesson& lesson, const QList<Workspace*>& workspaces);

  // As at the start of the program, whatever another lesson or a person chose: the panels' own settings, and what is
  // selected. The next show() arranges anew.
  void startAfresh();
  void selectNothing();  // run A, its first MoE layer, no expert, all steps, the newest of them
  void show(const LessonView& view);
  void clearHighlights();
  void leave();                   // highlights and panels of single runs go
  void showVerdicts(bool shown);  // a verdict may give the answer away

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
  QString arranged_;  // workspace and panels on screen
  QList<PanelDock*> highlights_;
  RunMultiples multiples_;
};

}  // namespace moescope
