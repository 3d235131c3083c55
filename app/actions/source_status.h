// Texts of the status line and of the notice about the source of the runs: what the program is doing and for how long,
// whether new steps arrive, and which parts are missing and which lines could not be read.
#pragma once

#include <QElapsedTimer>
#include <QString>
#include <QTimer>
#include <vector>

#include "app/actions/actions.h"
#include "core/logs/open_runs.h"
#include "core/training/engine/live_status.h"

namespace moescope {

class AccountWindow;
class NoticeBar;
class StatusLine;

// Shows what was read from the opened logs: from the menu, from the status line, and by itself if something is assumed
// or no run could be read. Reads the logs again with what the user states.
class AccountActions : public Actions {
  Q_OBJECT

 public:
  AccountActions(const Context& context, StatusLine* status);

  void addActionsTo(QMenu* menu);
  void showAccount();

 private:
  void onOpened();
  void showStatus();
  void show(std::vector<ImportAccount> accounts, const StatedLogs& stated);

  StatusLine* status_;
  AccountWindow* window_ = nullptr;
  QStringList paths_;                 // of the shown accounts
  std::vector<int> unread_;           // runs whose logs have names that were not read
  const LiveRuns* agreed_ = nullptr;  // training that the user agreed to close for these paths
};

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
