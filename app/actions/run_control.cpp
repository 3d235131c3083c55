#include "app/actions/run_control.h"

#include <QAction>
#include <QMenu>
#include <utility>

#include "app/bars/pace_popover.h"
#include "app/bars/window_bar.h"
#include "app/session/replay.h"
#include "app/session/run_session.h"
#include "app/session/settings.h"
#include "app/setup/model_presets_dialog.h"
#include "app/workspaces/compare_workspace.h"
#include "app/workspaces/workspace_tabs.h"
#include "core/config/config_check.h"
#include "widgets/look/setting_labels.h"

namespace moescope {

RunControl::RunControl(const Context& context, Replay* replay, WindowBar* bar)
    : Actions(context), replay_(replay), bar_(bar) {
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
  connect(replay_, &Replay::changed, this, &RunControl::showReplay);
  connect(selection_, &Selection::timeChanged, this, &RunControl::showReplay);
}

void RunControl::startAll(std::vector<RunConfig> configs, Start start) {
  for (const RunConfig& config : configs)
    if (const auto problems = validate(config); !problems.empty()) return messages_->warn(linesOf(problems));
  if (configs.size() > kMaxRuns) return emit groupsRequested(configs, configs.front().optimizer.total_steps);
  run_when_open_ = start == Start::running;
  setEndOf(configs);
  const QString name = QString::fromStdString(configs.front().name);
  session_->start(std::move(configs), recorded_ ? recordingPlace(name) : QString());
}

// Sets the end of the next runs. A built-in comparison pauses at the end of its schedule, unless the user has set
// another end for it. The next run does not keep an end that a comparison or a task of a lesson has set, but it keeps
// an end that the user has set.
void RunControl::setEndOf(const std::vector<RunConfig>& configs) {
  comparison_ = comparison_preset_of(configs);
  if (comparison_ != comparison_with_user_end_) comparison_with_user_end_.clear();
  const bool has_end = !comparison_.empty() && comparison_with_user_end_.empty();
  if (LiveRuns* live = session_->live(); live && (has_end || end_is_of_run_)) live->pause();
  if (std::exchange(end_is_of_run_, has_end) || has_end)
    endAt(has_end ? std::optional<qint64>(configs.front().optimizer.total_steps) : std::nullopt);
}

void RunControl::startAll(const ParsedConfig& parsed) {
  if (!parsed.twins.empty()) workspaces_->bringUp(workspaces_->compare());
  startAll(all_runs(parsed), Start::running);
}

void RunControl::startForLesson(const std::vector<RunConfig>& configs) {
  comparison_.clear();
  endAt({});
  run_when_open_ = false;
  session_->start(configs, QString());
}

void RunControl::onOpened() {
  replay_->pause();
  pause_at_bytes_ = kPauseAfterBytes;
  LiveRuns* live = session_->live();
  if (!live) {
    if (std::exchange(end_is_of_run_, false)) endAt({});
    return;
  }
  live->set_max_steps_per_s(speed_limit_);
  if (std::exchange(run_when_open_, true)) goOn();
}

void RunControl::startOver() {
  if (session_->showsLog()) return replay_->toStart();
  if (!session_->isLive()) return;
  startAll(session_->configs(), session_->live()->status().running ? Start::running : Start::paused);
}

// The requested end applies until it is reached. A run that is continued from there has no end.
void RunControl::goOn() {
  if (session_->showsLog()) return replay_->play();
  LiveRuns* live = session_->live();
  if (!live) return;
  if (until_ && *until_ > live->status().step)
    live->run_until(*until_);
  else
    live->run();
}

void RunControl::setUntil(std::optional<qint64> step) {
  if (step == until_) return;
  comparison_with_user_end_ = comparison_;
  end_is_of_run_ = false;
  endAt(step);
}

void RunControl::endAt(std::optional<qint64> step) {
  until_ = step;
  bar_->showUntil(step);
  if (session_->isLive() && session_->live()->status().running) goOn();
}

void RunControl::runUntil(qint64 step) {
  if (!session_->isLive()) return;
  end_is_of_run_ = true;
  endAt(step);
  goOn();
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

bool RunControl::isReplay() const {
  return session_->showsLog() && !session_->isFollowing();
}

void RunControl::showReplay() {
  if (isReplay()) bar_->showReplay(replay_->playing(), selection_->step(), selection_->stepWord());
}

void RunControl::showOpen() {
  if (session_->isLive())
    return bar_->showOpen(WindowBar::Open::training, session_->config(selection_->run()).optimizer.total_steps);
  if (session_->isFollowing()) {
    replay_->pause();  // the recording was opened as finished, but it has new steps
    return bar_->showOpen(WindowBar::Open::following);
  }
  bar_->showOpen(WindowBar::Open::recording);
  showReplay();
}

void RunControl::showStatus(const LiveStatus& status) {
  bar_->showStatus(status);
  if (status.running) pauseBeforeTheDiskIsFull();
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
    presets->addAction(text, this, [this, text] { startPreset(text); })
        ->setToolTip(QString::fromStdString(preset_about(name)).trimmed());
  };
  for (const std::string& name : preset_names()) add(name);
  presets->addAction("Miniatures of real models...", this, [this] {
    auto* dialog = new ModelPresetsDialog("Start %1", bar_->window());
    connect(dialog, &ModelPresetsDialog::chosen, this, &RunControl::startPreset);
    dialog->show();
  });
  presets->addSection("Several runs side by side");
  for (const std::string& name : comparison_preset_names()) add(name);
}

}  // namespace moescope
