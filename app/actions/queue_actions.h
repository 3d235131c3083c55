// Actions on candidates that do not all fit beside run A. They train in groups, and the view Candidates of
// Verdicts shows the results. A queue that an earlier session of the program left unfinished can be continued.
#pragma once

#include <memory>
#include <vector>

#include "app/actions/actions.h"
#include "core/config/run_config.h"

namespace moescope {

class FileActions;
class NoticeBar;
class OutcomesView;
class RunQueue;

class QueueActions : public Actions {
  Q_OBJECT

 public:
  QueueActions(const Context& context, OutcomesView* outcomes, NoticeBar* notice, FileActions* files);

  void addActionsTo(QMenu* menu);
  // Trains run A and its candidates, `steps` steps each, and pauses the live run.
  void start(std::vector<RunConfig> runs, qint64 steps);
  // Reads the trained groups of a queue and trains the others. If `queue_file` is empty, asks for the file.
  void continueQueue(QString queue_file);

 private:
  void showOutcomes();
  bool mayTrain();  // returns false after saying that other runs are training
  void train(std::unique_ptr<RunQueue> queue);
  void offerQueueOfOpened();
  void openCandidate(const QString& recording, const QString& run);
  void chooseAskedRun();

  OutcomesView* outcomes_;
  NoticeBar* notice_;
  FileActions* files_;
  QString asked_recording_, asked_run_;  // the recording and run that are being opened
};

}  // namespace moescope
