// Candidates that are more than can train beside run A: they train in groups under Outcomes. Those that an earlier
// start of the program did not finish are taken up where it ended.
#pragma once

#include <memory>
#include <vector>

#include "app/actions/actions.h"
#include "core/config/run_config.h"

class QMenu;

namespace moescope {

class FileActions;
class NoticeBar;
class OutcomesDock;
class RunQueue;

class QueueActions : public Actions {
  Q_OBJECT

 public:
  QueueActions(const Context& context, OutcomesDock* outcomes, NoticeBar* notice, FileActions* files);

  void addActionsTo(QMenu* menu);
  // Run A and its candidates, each for so many steps; what trains in the window pauses.
  void start(std::vector<RunConfig> runs, qint64 steps);
  // Reads which groups are trained, and trains the others. Empty: asks for the file.
  void takeUp(QString queue_file);

 private:
  bool mayTrain();  // false: others do, and the person was told
  void train(std::unique_ptr<RunQueue> queue);
  void offerQueueOfOpened();
  void openCandidate(const QString& recording, const QString& run);
  void chooseAskedRun();

  OutcomesDock* outcomes_;
  NoticeBar* notice_;
  FileActions* files_;
  QString asked_recording_, asked_run_;  // that is being opened
};

}  // namespace moescope
