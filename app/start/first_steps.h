// The start page on the Overview for as long as nothing is open, and the way back to it from panels without a run.
// What was open last is offered there after a restart.
#pragma once

#include <QObject>
#include <QStringList>

namespace moescope {

class FileActions;
class LessonActions;
class RunControl;
class RunSession;
class Selection;
class StartPage;
class WorkspaceTabs;

class FirstSteps : public QObject {
  Q_OBJECT

 public:
  // `remembers`: which run was open last.
  FirstSteps(StartPage* page, RunSession* session, Selection* selection, WorkspaceTabs* workspaces, bool remembers);
  void connectTo(RunControl* control, FileActions* files, LessonActions* lessons);

  void offerPage();  // from now on, on the Overview, whenever nothing is open
  void showPage();   // the same, with the Overview in front
  StartPage* page() const { return page_; }

 private:
  void look();
  void onOpened();
  void keepLastRun() const;
  QStringList lastRun() const;  // empty: none that can still be opened

  StartPage* page_;
  RunSession* session_;
  WorkspaceTabs* workspaces_;
  LessonActions* lessons_ = nullptr;
  const bool remembers_;
  bool wanted_ = false;
};

}  // namespace moescope
