// The view of Verdicts for candidates that train in groups (core/training/engine/run_queue.h): progress over all
// groups, time left, cancel and continue, the table of outcomes, and earlier queues that can be continued.
#pragma once

#include <QElapsedTimer>
#include <QTimer>
#include <memory>
#include <vector>

#include "app/docks/outcomes_table.h"
#include "core/training/engine/run_queue.h"
#include "widgets/panel/latest_worker.h"

class QLabel;
class QMenu;
class QProgressBar;
class QPushButton;

namespace moescope {

class OutcomesView : public QWidget {
  Q_OBJECT

 public:
  explicit OutcomesView(QWidget* parent = nullptr);

  // Trains the groups that have not finished, and asks to be shown. No other queue may be training.
  void start(std::unique_ptr<RunQueue> queue);
  QString recording() const;  // path after which path_of_group() names the recordings; empty: no recordings
  const std::vector<Outcome>& outcomes() const { return table_->outcomes(); }
  bool training() const { return queue_ && queue_->status().running; }
  void cancel();
  void goOn();  // trains the groups that have not finished
  void end();   // cancels, and waits until the present step ends

  QSize sizeHint() const override;  // with a few rows

 signals:
  void shown();  // requests to be shown
  // Emitted after a start, once the recording of the group in training has steps. `run`: the name of its run A.
  void begun(QString recording, QString run);
  void takeUpRequested(QString queue_file);  // requests to continue this queue; empty: asks for the file first
  void openRequested(QString recording, QString run);
  void runChosen(QString recording, QString run);  // requests that the run be selected if its recording is open
  void failed(QString reason);                     // emitted if training failed or a candidate cannot be opened

 private:
  void fillQueues();
  void addProgress();
  void showPlace();
  void showProgress();
  void computeOutcomes();
  void take(std::vector<Outcome> outcomes, int training);
  void open(const Outcome& outcome);
  QString recordingOf(const Outcome& outcome) const;
  QString progressText(const QueueStatus& status) const;

  std::unique_ptr<RunQueue> queue_;
  QTimer clock_;
  QElapsedTimer since_outcomes_;
  bool computing_ = false, running_ = false, begun_ = false;
  QLabel *progress_text_, *place_;
  QProgressBar* bar_;
  QPushButton* stop_;
  QMenu* queues_;
  OutcomesTable* table_;
  LatestWorker worker_;  // destroyed first: its jobs use the members above
};

}  // namespace moescope
