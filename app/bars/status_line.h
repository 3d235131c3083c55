// The line at the bottom: the step of the run, the cost of drawing, the size of recording and history.
#pragma once

#include <QStatusBar>
#include <QToolButton>

#include "core/telemetry/history/history.h"
#include "core/training/lab/lab_status.h"

class QLabel;

namespace moescope {

class StatusLine : public QStatusBar {
  Q_OBJECT

 public:
  explicit StatusLine(QWidget* parent = nullptr);

  void showTraining(const LabStatus& status);
  void showFollowing(const QString& text);  // for what is not trained here
  void showScreen(double frames_per_s, double frame_ms);
  // `attached_to`: HOST:PORT of the training that is watched; empty: none.
  void showHoldings(const QString& path, const QString& attached_to, const History& history);
  void showThreads(int threads);
  void showFindings(int severe, int warnings, bool ready);

 signals:
  void findingsClicked();

 protected:
  bool event(QEvent* event) override;

 private:
  void hideUnderMessage();
  QLabel* add(const QString& tip, QLabel* label = nullptr);

  QToolButton* findings_;
  bool findings_ready_ = false;
  QLabel *training_, *screen_, *holdings_, *threads_;
};

}  // namespace moescope
