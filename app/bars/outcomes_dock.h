// Candidates that train in groups (core/training/lab/queue_training.h): progress over all groups, time left, cancel and
// continue, and the live table of outcomes.
#pragma once

#include <QDockWidget>
#include <QElapsedTimer>
#include <QTimer>
#include <memory>
#include <vector>

#include "core/training/lab/queue_training.h"
#include "widgets/panel/latest_worker.h"

class QLabel;
class QProgressBar;
class QPushButton;

namespace moescope {

class OutcomesPanel;
class Selection;

class OutcomesDock : public QDockWidget {
  Q_OBJECT

 public:
  explicit OutcomesDock(Selection* selection, QWidget* parent = nullptr);
  ~OutcomesDock() override;  // cancels and waits for the step in flight

  // Run A first; as QueueTraining. Shows the dock. Not while others train.
  void start(std::vector<RunConfig> runs, std::int64_t steps, const QString& recording);
  bool training() const { return queue_ && queue_->status().running; }
  void cancel();
  void goOn();  // with the groups that have not finished

 signals:
  void begun(QString recording, QString run);  // the first group's recording has steps to show, here of run A
  void openRequested(QString recording, QString run);
  void runChosen(QString recording, QString run);  // where that recording is open
  void failed(QString why);                        // the groups cannot be compared, or training failed
  void saved(QString path);

 private:
  QWidget* makeContent(Selection* selection);
  void showProgress();
  void computeOutcomes();
  void take(std::vector<Outcome> outcomes, int training);
  void open(const Outcome& of);
  QString recordingOf(const Outcome& of) const;
  QString progressText(const QueueStatus& status) const;

  std::unique_ptr<QueueTraining> queue_;
  QTimer clock_;
  QElapsedTimer since_outcomes_;
  bool computing_ = false, running_ = false, begun_ = false;
  QLabel *progress_text_, *place_;
  QProgressBar* bar_;
  QPushButton* stop_;
  OutcomesPanel* panel_;
  LatestWorker worker_;  // last: it ends before what its jobs use
};

}  // namespace moescope
