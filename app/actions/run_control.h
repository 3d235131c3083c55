// Starts runs, and continues, pauses, steps or restarts them or the replay of a recording. The window bar sends the
// requests and shows the state.
#pragma once

#include <optional>
#include <vector>

#include "app/actions/actions.h"
#include "core/config/config_toml.h"
#include "core/config/run_config.h"
#include "core/training/engine/live_status.h"

namespace moescope {

class Replay;
class StatusLine;
class WindowBar;

class RunControl : public Actions {
  Q_OBJECT

 public:
  RunControl(const Context& context, Replay* replay, WindowBar* bar, StatusLine* status);

  enum class Start { running, paused };
  void start(const RunConfig& config, Start start = Start::running) { startAll({config}, start); }
  // Starts the runs in lock-step, the first as run A; emits groupsRequested() for more runs than can train together.
  void startAll(std::vector<RunConfig> configs, Start start);
  void startAll(const ParsedConfig& parsed);  // starts the run of a file with the twins that it defines
  // Starts the runs paused, without a recording and without an end.
  void startForLesson(const std::vector<RunConfig>& configs);
  void setRecorded(bool recorded) { recorded_ = recorded; }  // false: runs stay in memory only
  // Sets the step before which these and later runs pause; nullopt: at the end of their schedule.
  void setUntil(std::optional<qint64> step);
  void runUntil(qint64 step);       // the open runs only
  void endOpenRunsAt(qint64 step);  // the step before which they pause once they train
  void startOver();
  void goOn();
  // Returns the step before which the training pauses: the one that was requested for the open runs, the one that the
  // user has set for all runs, or the end of run A's schedule.
  std::optional<qint64> end() const;

  void addPresetsTo(QMenu* menu);
  void showOpen();                            // shows the active run in the bar
  void showStatus(const LiveStatus& status);  // called by the frame clock while a run trains

 signals:
  void groupsRequested(const std::vector<moescope::RunConfig>& runs, qint64 steps);  // `runs` begins with run A

 private:
  void onOpened();
  void offerToGoOn();
  void pause();
  void stepOnce();
  void showCursor();
  void pauseBeforeTheDiskIsFull();

  Replay* replay_;
  WindowBar* bar_;
  StatusLine* status_;
  double speed_limit_ = 0;
  std::optional<qint64> until_, end_of_run_;
  bool ends_with_schedule_ = true;  // false: a lesson
  LiveStatus shown_;
  qint64 pause_at_bytes_ = 0;
  bool recorded_ = true, run_when_open_ = true;
};

}  // namespace moescope
