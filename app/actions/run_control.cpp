#include "app/actions/run_control.h"

#include <QAction>
#include <QMenu>
#include <utility>

#include "app/bars/popovers.h"
#include "app/bars/status_line.h"
#include "app/bars/window_bar.h"
#include "app/session/replay.h"
#include "app/session/run_session.h"
#include "app/session/settings.h"
#include "app/setup/preset_list.h"
#include "app/workspaces/compare_workspace.h"
#include "app/workspaces/workspace_tabs.h"
#include "core/config/config_check.h"
#include "widgets/look/counted_text.h"
#include "widgets/look/setting_labels.h"

namespace moescope {

RunControl::RunControl(const Context& context, Replay* replay, WindowBar* bar, StatusLine* status)
    : Actions(context), replay_(replay), bar_(bar), status_(status) {
  connect(status_, &StatusLine::offerClicked, this, &RunControl::goOn);
  connect(bar_, &WindowBar::runRequested, this, [this](bool run) {
    run ? goOn() : pause();
    if (LiveRuns* live = session_->live()) bar_->showStatus(live->status());  // does not wait for the next tick
  });
  connect(bar_->stepAction(), &QAction::triggered, this, &RunControl::stepOnce);
  connect(bar_->resetAction(), &QAction::triggered, this, &RunControl::startOver);
  connect(bar_->pace(), &PacePopover::untilRequested, this, &RunControl::setUntil);
  connect(bar_->pace(), &PacePopover::speedRequested, this, [this](double limit) {
    speed_limit_ = limit;
    replay_->setSpeed(limit);
    if (LiveRuns* live = session_->live()) live->set_max_steps_per_s(limit);
  });
  connect(session_, &RunSession::opened, this, &RunControl::onOpened);
  connect(replay_, &Replay::changed, this, &RunControl::showCursor);
  connect(selection_, &Selection::timeChanged, this, &RunControl::showCursor);
}

void RunControl::startAll(std::vector<RunConfig> configs, Start start) {
  for (const RunConfig& config : configs)
    if (const auto problems = validate(config); !problems.empty()) return messages_->warn(linesOf(problems));
  if (configs.size() > kMaxRuns) return emit groupsRequested(configs, configs.front().optimizer.total_steps);
  run_when_open_ = start == Start::running;
  ends_with_schedule_ = true;
  const QString name = QString::fromStdString(configs.front().name);
  session_->start(std::move(configs), recorded_ ? recordingPlace(name) : QString());
}

void RunControl::startAll(const ParsedConfig& parsed) {
  if (!parsed.twins.empty()) workspaces_->bringUp(workspaces_->compare());
  startAll(all_runs(parsed), Start::running);
}

void RunControl::startForLesson(const std::vector<RunConfig>& configs) {
  ends_with_schedule_ = false;
  until_.reset();
  run_when_open_ = false;
  session_->start(configs, QString());
}

void RunControl::onOpened() {
  replay_->pause();
  pause_at_bytes_ = kPauseAfterBytes;
  end_of_run_.reset();
  shown_ = {};
  status_->offer({});
  bar_->showUntil(until_);
  LiveRuns* live = session_->live();
  if (!live) return;
  live->set_max_steps_per_s(speed_limit_);
  if (std::exchange(run_when_open_, true)) goOn();
}

void RunControl::startOver() {
  if (session_->showsLog()) return replay_->toStart();
  if (!session_->isLive()) return;
  startAll(session_->configs(), session_->live()->status().running ? Start::running : Start::paused);
}

std::optional<qint64> RunControl::end() const {
  if (end_of_run_) return end_of_run_;
  if (until_ || !ends_with_schedule_) return until_;
  return session_->config().optimizer.total_steps;
}

// An end applies until it is reached. A run that is continued from there has no end.
void RunControl::goOn() {
  if (session_->showsLog()) return replay_->play();
  LiveRuns* live = session_->live();
  if (!live) return;
  shown_.running = true;  // a short training may end before the next status
  if (const auto step = end(); step && *step > live->status().step)
    live->run_until(*step);
  else
    live->run();
}

void RunControl::setUntil(std::optional<qint64> step) {
  if (step == until_ && !end_of_run_) return;
  until_ = step;
  end_of_run_.reset();
  bar_->showUntil(step);
  if (session_->isLive() && session_->live()->status().running) goOn();
}

void RunControl::runUntil(qint64 step) {
  if (!session_->isLive() || session_->live()->status().step >= step) return;
  endOpenRunsAt(step);
  goOn();
}

void RunControl::endOpenRunsAt(qint64 step) {
  end_of_run_ = step;
  bar_->showUntil(step);
}

void RunControl::pause() {
  if (LiveRuns* live = session_->live())
    live->pause();
  else
    replay_->pause();
}

void RunControl::stepOnce() {
  if (LiveRuns* live = session_->live())
    live->step_once();
  else if (session_->showsLog())
    replay_->stepOnce();
}

void RunControl::showCursor() {
  if (session_->showsLog() && !session_->isFollowing())
    return bar_->showReplay(replay_->playing(), selection_->step(), selection_->stepWord());
  if (session_->isLive() && shown_.running) showStatus(shown_);
}

void RunControl::showOpen() {
  if (!selection_->history()) {  // a step of a lesson whose own runs are not open yet
    status_->offer({});
    status_->showState("Ready");
    return bar_->showOpen(WindowBar::Open::nothing);
  }
  if (session_->isLive())
    return bar_->showOpen(WindowBar::Open::training, session_->config(selection_->run()).optimizer.total_steps);
  if (session_->isFollowing()) {
    replay_->pause();  // the recording was opened as finished, but it has new steps
    return bar_->showOpen(WindowBar::Open::following);
  }
  bar_->showOpen(WindowBar::Open::recording);
  showCursor();
}

// Counts the steps of a run that trains up to the cursor, so that the bar and the panels show the same step.
void RunControl::showStatus(const LiveStatus& status) {
  const bool has_stopped = shown_.running && !status.running && status.error.empty();
  LiveStatus counted = shown_ = status;
  if (status.running && selection_->following() && selection_->history() && !selection_->history()->steps().empty())
    counted.step = selection_->step() + 1;
  bar_->showStatus(counted);
  if (status.running) {
    status_->offer({});
    pauseBeforeTheDiskIsFull();
  } else if (has_stopped && status.step == end()) {
    offerToGoOn();
  }
}

void RunControl::offerToGoOn() {
  const qint64 step = session_->live()->status().step;
  const QString tip = step == session_->config().optimizer.total_steps
                          ? "All %1 steps of the schedule are done; further steps keep its last learning rate, and "
                            "verdicts over several seeds leave them out"
                          : "Further steps go beyond the end that was set, %1 steps";
  status_->offer("Go on", tip.arg(groupedText(step)));
}

void RunControl::pauseBeforeTheDiskIsFull() {
  if (recordingBytes(session_->path()) < pause_at_bytes_) return;
  pause_at_bytes_ += kPauseAfterBytes;
  pause();
  messages_->warn(
      withSettingLabels("Paused: the recording %1 has grown by %2 GB. Space continues the training; a larger "
                        "telemetry.every makes recordings smaller.")
          .arg(session_->path())
          .arg(kPauseAfterBytes / 1e9));
}

void RunControl::addPresetsTo(QMenu* menu) {
  QMenu* presets = menu->addMenu("Start a &preset");
  presets->setToolTipsVisible(true);
  const auto add = [this, presets](const std::string& name) {
    const QString text = QString::fromStdString(name);
    QAction* start = presets->addAction(text, this, [this, name] { startAll(load_preset(name)); });
    start->setToolTip(QString::fromStdString(preset_about(name)).trimmed());
    start->setProperty("also", presetSubject(text));  // in the search
  };
  for (const std::string& name : preset_names()) add(name);
  presets->addSection("Several runs side by side");
  for (const std::string& name : comparison_preset_names()) add(name);
}

}  // namespace moescope
