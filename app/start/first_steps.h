// Shows the start page on the Overview while nothing is open, and a button for it on panels without a run. After a
// restart the page offers the last opened run.
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
  // `remembers`: whether the last opened run is stored.
  FirstSteps(StartPage* page, RunSession* session, Selection* selection, WorkspaceTabs* workspaces, bool remembers);
  void connectTo(RunControl* control, FileActions* files, LessonActions* lessons);

  void offerPage();  // from this call on, shows the page on the Overview whenever nothing is open
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
