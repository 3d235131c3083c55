// Texts of the status line and of the notice about the source of the runs: what the program is doing and for how long,
// whether new steps arrive, and which parts are missing and which lines could not be read.
#pragma once

#include <QElapsedTimer>
#include <QString>
#include <QTimer>

#include "app/actions/actions.h"
#include "core/training/engine/live_status.h"

class QMenu;

namespace moescope {

class NoticeBar;
class StatusLine;

class SourceStatus : public Actions {
  Q_OBJECT

 public:
  SourceStatus(const Context& context, StatusLine* status, NoticeBar* notice);

  void addActionsTo(QMenu* menu);             // adds the entry that shows the list of unreadable lines again
  void showProgress();                        // shows the progress of reading or following
  void showStatus(const LiveStatus& status);  // called by the frame clock with the status of the runs in training

 private:
  void onOpened();
  void offerToFollow();
  void offerQuestions();
  void onRunsChanged();
  void onGrowingEnded(const QString& reason);
  void showSkippedLines();
  // Starts a timer that shows what the program is doing and for how long, until the screen has something new to show.
  void begin(const QString& what);
  void beat();
  void showBeat();
  bool firstStepIsTaken() const;

  StatusLine* status_;
  NoticeBar* notice_;
  QString what_;
  QElapsedTimer elapsed_;
  QTimer timer_{this};
};

}  // namespace moescope
