// Messages to the user: a line in the status bar, or a box that stays until it is closed.
#pragma once

#include <QObject>
#include <QString>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/config/config_check.h"
#include "widgets/selection/throttle.h"

class QStatusBar;
class QWidget;

namespace moescope {

// Reason why an action on a run in training is disabled.
inline constexpr const char* kNothingTrains =
    "Only for a run in training. A log or a recording is open; Set-up (F2) starts a run.";

QString linesOf(const std::vector<ConfigProblem>& problems);  // one line for each

// The dialog in front of the window, behind which a box of the window would open; the window if there is none. A dialog
// that is deleted when it closes would take the box along.
QWidget* frontOf(QWidget* window);

class Messages : public QObject {
  Q_OBJECT

 public:
  explicit Messages(QStatusBar* line);  // also the parent of this object

  QWidget* window() const;  // the parent of boxes and dialogs
  void say(const QString& text, int for_ms = 5000);
  void saySaved(const QString& path) { say("Saved " + path); }
  void warn(const QString& text);
  // Runs `action` and shows an exception as a warning.
  void warnOfErrors(const std::function<void()>& action);
  // Sets the function that returns the files and folders that the window reads. saveAs() does not replace them.
  void keepInputs(std::function<std::vector<std::string>()> inputs) { inputs_ = std::move(inputs); }
  // Asks for the name of a file and passes it to `save`, whose exceptions it shows as warnings.
  void saveAs(const QString& title, const QString& suggested, const QString& filter,
              const std::function<void(const QString& path)>& save);
  // Shows the values under the mouse or the keyboard cursor; an empty text removes them. Updates at most twelve times a
  // second.
  void showReadout(const QString& text);

 signals:
  void warned(QString text);  // emitted after a warning was shown

 private:
  QStatusBar* line_;
  std::function<std::vector<std::string>()> inputs_;
  QString readout_, next_readout_;  // the shown readout and the next one
  Throttle readouts_;
};

}  // namespace moescope
