// What the window tells the person: a line in the status bar, or a box that stays until it is closed.
#pragma once

#include <QObject>
#include <QString>
#include <functional>

#include "widgets/selection/throttle.h"

class QStatusBar;
class QWidget;

namespace moescope {

// Why what acts on a model in training is off.
inline constexpr const char* kNothingTrains =
    "Only for a run in training. A log or a recording is open; Set-up (F2) starts a run.";

class Messages : public QObject {
  Q_OBJECT

 public:
  explicit Messages(QStatusBar* line);  // its parent

  QWidget* window() const;  // the parent of boxes and dialogs
  void say(const QString& text, int for_ms = 5000);
  void saySaved(const QString& path);
  void warn(const QString& text);
  // Runs `action`; what it throws becomes a warning.
  void warnOfErrors(const std::function<void()>& action);
  // What is under the mouse or the keyboard's cursor; empty: nothing any more. At most twelve a second.
  void showReadout(const QString& text);

 signals:
  void warned(QString text);  // after it was shown

 private:
  QStatusBar* line_;
  QString readout_, next_readout_;  // shown last, and what comes next
  Throttle readouts_;
};

}  // namespace moescope
