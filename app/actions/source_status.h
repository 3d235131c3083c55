// What is said about opened files and a training that is looked on at: whether more steps come, what was missing, and
// which lines could not be read.
#pragma once

#include <QString>

#include "app/actions/actions.h"

class QMenu;

namespace moescope {

class NoticeBar;
class StatusLine;

class SourceStatus : public Actions {
  Q_OBJECT

 public:
  SourceStatus(const Context& context, StatusLine* status, NoticeBar* notice);

  void addActionsTo(QMenu* menu);  // to see the lines that could not be read once more
  void showProgress();             // of what is read or followed

 private:
  void onOpened();
  void offerToFollow();
  void onRunsChanged();
  void onGrowingEnded(const QString& why);
  void showSkippedLines();

  StatusLine* status_;
  NoticeBar* notice_;
};

}  // namespace moescope
