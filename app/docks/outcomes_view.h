// The view of Verdicts for candidates that train in groups (core/training/engine/run_queue.h): progress over all
// groups, time left, cancel and continue, the table of outcomes, and earlier queues that can be continued.
#pragma once

#include <QElapsedTimer>
#include <QTableView>
#include <QTimer>
#include <memory>
#include <vector>

#include "core/findings/comparison/outcomes.h"
#include "core/training/engine/run_queue.h"
#include "widgets/panel/latest_worker.h"

class QLabel;
class QMenu;
class QProgressBar;
class QPushButton;

namespace moescope {

class OutcomesModel;

// The table of outcomes: run A, then its candidates by loss gap. A click on a column's title sorts by the column; so
// does the key S with the cursor in the column. Enter or a double click opens the group's recording.
class OutcomesTable : public QTableView {
  Q_OBJECT

 public:
  explicit OutcomesTable(QWidget* parent = nullptr);
  // Shows outcomes in the order of outcomes(). `training`: number of the group that trains; 0: none.
  void showOutcomes(std::vector<Outcome> outcomes, int training);
  const std::vector<Outcome>& outcomes() const { return outcomes_; }
  int heightFor(int rows) const;  // height at which `rows` rows are visible without scrolling
  QString notMeasured() const;    // which columns are hidden because they are empty, and which settings fill them

 signals:
  void opened(const moescope::Outcome& outcome);  // a row was opened by Enter or a double click
  void chosen(const moescope::Outcome& outcome);  // a row was clicked

 protected:
  bool event(QEvent* event) override;

 private:
  void sortByCurrentColumn();
  const Outcome& outcomeAt(const QModelIndex& index) const;
  bool isMeasured(int column) const;

  std::vector<Outcome> outcomes_;
  OutcomesModel* model_;
};

class OutcomesView : public QWidget {
  Q_OBJECT

 public:
  explicit OutcomesView(QWidget* parent = nullptr);

  // Trains the groups that have not finished, and asks to be shown. No other queue may be training.
  void start(std::unique_ptr<RunQueue> queue);
  // path after which path_of_group() names the recordings; empty: no recordings
  QString recording() const { return queue_ ? QString::fromStdString(queue_->recording()) : QString(); }
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
