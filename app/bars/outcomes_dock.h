// Candidates that train in groups (core/training/engine/run_queue.h): progress over all groups, time left, cancel
// and continue, the live table of outcomes, and the queues of before that can be taken up.
#pragma once

#include <QElapsedTimer>
#include <QTimer>
#include <memory>
#include <vector>

#include "app/bars/side_dock.h"
#include "core/training/engine/run_queue.h"
#include "widgets/panel/latest_worker.h"

class QLabel;
class QMenu;
class QProgressBar;
class QPushButton;

namespace moescope {

class OutcomesPanel;
class Selection;

class OutcomesDock : public SideDock {
  Q_OBJECT

 public:
  explicit OutcomesDock(Selection* selection, QWidget* parent = nullptr);
  ~OutcomesDock() override;  // cancels and waits for the step in flight

  // Trains the groups that wait, and shows the dock. Not while others train.
  void start(std::unique_ptr<RunQueue> queue);
  QString recording() const;  // of which its groups' are made (path_of_group()); empty: there are none
  bool training() const { return queue_ && queue_->status().running; }
  void cancel();
  void goOn();  // with the groups that have not finished
  void end();   // cancels, and waits for the step in flight

  // That it was last given in the window; 0: none yet. Kept from one start of the program to the next.
  int keptHeight() const { return kept_height_; }
  void keepHeight(int height);

 signals:
  void begun(QString recording, QString run);  // that of the group in training has steps to show, here of run A
  void takeUpRequested(QString queue_file);    // empty: one that is still to be asked for
  void openRequested(QString recording, QString run);
  void runChosen(QString recording, QString run);  // where that recording is open
  void failed(QString why);                        // the groups cannot be compared, or training failed
  void saved(QString path);

 protected:
  void showEvent(QShowEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  void takeHeight();
  void fillQueues();
  QWidget* makeContent(Selection* selection);
  void showProgress();
  void computeOutcomes();
  void take(std::vector<Outcome> outcomes, int training);
  void open(const Outcome& of);
  QString recordingOf(const Outcome& of) const;
  QString progressText(const QueueStatus& status) const;

  std::unique_ptr<RunQueue> queue_;
  QTimer clock_;
  QElapsedTimer since_outcomes_;
  bool computing_ = false, running_ = false, begun_ = false;
  QLabel *progress_text_, *place_;
  QProgressBar* bar_;
  QPushButton* stop_;
  QMenu* queues_;
  int kept_height_ = 0;
  bool has_height_ = false;  // since it was shown
  OutcomesPanel* panel_;
  LatestWorker worker_;  // last: it ends before what its jobs use
};

}  // namespace moescope
