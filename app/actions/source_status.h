// Messages about opened files and attached trainings: whether new steps come, what is missing, and which lines could
// not be read.
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

  void addActionsTo(QMenu* menu);  // adds the entry that lists the unreadable lines again
  void showProgress();             // shows the progress of reading or following

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
