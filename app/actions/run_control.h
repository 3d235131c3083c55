// Running: starts models in training, and lets them, or the replay of a recording, go, pause, step and start over. The
// bar asks for it and shows it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/actions/actions.h"
#include "core/config/config_toml.h"
#include "core/config/run_config.h"
#include "core/training/engine/live_status.h"

class QMenu;

namespace moescope {

class Replay;
class WindowBar;

class RunControl : public Actions {
  Q_OBJECT

 public:
  RunControl(const Context& context, Replay* replay, WindowBar* bar);

  enum class Start { running, paused };
  void start(const RunConfig& config, Start start = Start::running) { startAll({config}, start); }
  // In lock-step, the first is run A; asks for groups where they are more than can train at once.
  void startAll(std::vector<RunConfig> configs, Start start);
  void startAll(const ParsedConfig& parsed);                   // of a file, with the twins in it
  void startForLesson(const std::vector<RunConfig>& configs);  // paused, in memory only, without an end
  void setRecorded(bool recorded) { recorded_ = recorded; }    // off: runs stay in memory only
  void setUntil(std::optional<qint64> step);                   // as asked for: pauses before it; nothing: no end
  void runUntil(qint64 step);
  void startOver();
  void goOn();

  void addActionsTo(QMenu* menu);
  void addPresetsTo(QMenu* menu);
  // The bar shows what is open: one run of several, with its settings where they are known.
  void showOpen(const RunConfig* config);
  void showStatus(const LiveStatus& status);  // while it trains

 signals:
  void groupsRequested(const std::vector<moescope::RunConfig>& runs, qint64 steps);  // run A first

 private:
  void onOpened();
  void setEndOf(const std::vector<RunConfig>& configs);
  void endAt(std::optional<qint64> step);
  void pause();
  void stepOnce();
  void startPreset(const QString& name);
  void showReplay();
  bool isReplay() const;  // a recording is open, whole
  void pauseBeforeTheDiskIsFull();

  Replay* replay_;
  WindowBar* bar_;
  double speed_limit_ = 0;
  std::optional<qint64> until_;
  qint64 pause_at_bytes_ = 0;
  bool recorded_ = true, run_when_open_ = true;
  std::string comparison_;         // that was started last, of those that came with the program; empty: another run
  std::string asked_end_instead_;  // the comparison in place of whose end the person asked for another
  bool end_is_of_run_ = false;     // not the person's wish for whatever trains
  bool growing_ended_ = false;     // of what was followed or attached to
};

}  // namespace moescope
