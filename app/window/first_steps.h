// The first minute of a person who has given nothing on the command line: three doors above the panels until one is
// taken, the same doors in every panel without a run, and, once the model in training has taken some steps, one hint.
#pragma once

#include <QObject>
#include <QStringList>

#include "core/training/lab/lab_status.h"

namespace moescope {

class FileActions;
class LessonActions;
class RunControl;
class RunSession;
class Selection;
class StartCard;
class WorkspaceTabs;

class FirstSteps : public QObject {
  Q_OBJECT

 public:
  // `hints`: shows the hint, unless it was closed in an earlier start of the program, and offers the run that was open
  // last.
  FirstSteps(StartCard* card, RunSession* session, Selection* selection, RunControl* control, FileActions* files,
             LessonActions* lessons, WorkspaceTabs* workspaces, bool hints);

  // Shows the doors; the next run that opens is the program's own and leaves them where they are.
  void showDoors();
  void showStatus(const LabStatus& status);

 private:
  void onOpened();
  void takeDoorsAway();
  void takeLesson();
  void comparePrecisions();
  void onClosed();
  void keepLastRun() const;
  QStringList lastRun() const;  // that can still be opened

  StartCard* card_;
  RunSession* session_;
  RunControl* control_;
  LessonActions* lessons_;
  WorkspaceTabs* workspaces_;
  bool doors_shown_ = false, next_is_own_ = false, opening_own_ = false;
  bool own_open_ = false;  // what is open was started by the program itself
  const bool remembers_;
  bool hint_shown_ = false, hint_done_;
};

}  // namespace moescope
