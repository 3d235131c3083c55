// Shows the start page on the Overview while nothing is open, a button for it on panels without a run, and on it the
// last opened run after a restart.
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
  // `remembers`: the last opened run is stored.
  FirstSteps(StartPage* page, RunSession* session, Selection* selection, WorkspaceTabs* workspaces, bool remembers);
  void connectTo(RunControl* control, FileActions* files, LessonActions* lessons);

  void offerPage();  // shows the page on the Overview from now on whenever nothing is open
  void showPage();   // calls offerPage() and brings the Overview to the front
  StartPage* page() const { return page_; }

 private:
  void look();
  void onOpened();
  void keepLastRun() const;
  QStringList lastRun() const;  // files of the last opened run that still exist

  StartPage* page_;
  RunSession* session_;
  WorkspaceTabs* workspaces_;
  LessonActions* lessons_ = nullptr;
  const bool remembers_;
  bool wanted_ = false;
};

}  // namespace moescope
