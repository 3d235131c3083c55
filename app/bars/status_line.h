// The status line: which run trains or is open, its speed, its recording, and the number of findings. Each item has
// shorter forms for narrow windows; an item without room is hidden.
#pragma once

#include <QFrame>
#include <QLabel>
#include <QStatusBar>
#include <functional>

#include "core/recording/history/history.h"
#include "core/training/engine/live_status.h"

class QHBoxLayout;

namespace moescope {

class StatusItem;

// A line above the panels for warnings and offers. It stays until the user closes it or the text is no longer true.
class NoticeBar : public QFrame {
  Q_OBJECT

 public:
  explicit NoticeBar(QWidget* parent = nullptr);
  void showNotice(const QString& text) { offer(text, {}); }  // shows a warning; an empty text hides the line
  struct Offer {
    QString button;
    std::function<void()> action;
  };
  // Shows offers, each with a button that calls its action and hides the line.
  void offer(const QString& text, const QList<Offer>& offers);
  QString text() const { return text_->text(); }

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  QLabel* text_;
  QHBoxLayout* buttons_;
};

class StatusLine : public QStatusBar {
  Q_OBJECT

 public:
  explicit StatusLine(QWidget* parent = nullptr);

  enum class Dot { quiet, good };
  void showTraining(const LiveStatus& status, int runs, bool is_finished);
  void showState(const QString& text, Dot dot = Dot::quiet);  // shows the state of an opened run
  // Shows a button beside the state, which says how a run can go on; an empty text hides it.
  void offer(const QString& text, const QString& tip = {});
  // `path`: path of the recording or log; empty if there is none.
  void showRecording(const QString& path, bool training, const History& history);
  void showFindings(int severe, int warnings, bool ready, const QString& by_run = {});
  // Shows how many patterns of names of the opened logs are to be confirmed, or were left out as unknown.
  void showAccount(int to_confirm, int left_out, bool is_log, const QString& by_run = {});

 signals:
  void findingsClicked();
  void accountClicked();
  void offerClicked();

 protected:
  void resizeEvent(QResizeEvent* event) override;
  bool event(QEvent* event) override;

 private:
  void fit();

  QWidget* items_;
  StatusItem *state_, *offer_, *speed_, *tokens_, *steps_, *recording_;
  StatusItem *findings_, *account_;
  bool is_finished_ = false;
};

}  // namespace moescope
