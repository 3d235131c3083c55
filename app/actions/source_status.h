// Texts of the status line and of the notice about the source of the runs: work that is in progress and its time,
// whether new steps arrive, and missing parts and lines that could not be read.
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

  void addActionsTo(QMenu* menu);             // adds the entry that lists the unreadable lines again
  void showProgress();                        // shows the progress of reading or following
  void showStatus(const LiveStatus& status);  // called by the frame clock with the status of the runs in training

 private:
  void onOpened();
  void offerToFollow();
  void onRunsChanged();
  void onGrowingEnded(const QString& why);
  void showSkippedLines();
  // While the screen has nothing new to show, a timer shows what the program is doing and for how long.
  void begin(const QString& what);
  void beat();
  void showBeat();
  bool firstStepIsTaken() const;

  StatusLine* status_;
  NoticeBar* notice_;
  QString what_;
  QElapsedTimer since_;
  QTimer timer_{this};
};

}  // namespace moescope
