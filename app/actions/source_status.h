// What is said about opened files and a training that is looked on at: whether more steps come, what was missing, and
// which lines could not be read.
#pragma once

#include <QObject>
#include <QString>

class QMenu;

namespace moescope {

class Messages;
class NoticeBar;
class RunSession;
class StatusLine;

class SourceStatus : public QObject {
  Q_OBJECT

 public:
  SourceStatus(RunSession* session, StatusLine* status, NoticeBar* notice, Messages* messages);

  void addActionsTo(QMenu* menu);  // to see the lines that could not be read once more
  void showProgress();             // of what is read or followed

 private:
  void onOpened();
  void offerToFollow();
  void onRunsChanged();
  void onGrowingEnded(const QString& why);
  void showSkippedLines();

  RunSession* session_;
  StatusLine* status_;
  NoticeBar* notice_;
  Messages* messages_;
};

}  // namespace moescope
