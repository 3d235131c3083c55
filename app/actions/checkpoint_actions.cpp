#include "app/actions/checkpoint_actions.h"

#include <QMenu>
#include <cstdlib>

#include "app/docks/actions_dock.h"
#include "app/session/run_session.h"
#include "app/setup/compare_dialog.h"
#include "app/workspaces/compare_workspace.h"
#include "app/workspaces/workspace_tabs.h"
#include "widgets/look/counted_text.h"
#include "widgets/look/setting_labels.h"
#include "widgets/overview/timeline_bar.h"

namespace moescope {

CheckpointActions::CheckpointActions(const Context& context, ActionsDock* dock) : Actions(context), dock_(dock) {
  connect(session_, &RunSession::opened, this, &CheckpointActions::showKept);  // a log has none
  connect(dock_, &ActionsDock::keepRequested, this, &CheckpointActions::keepNow);
  connect(dock_, &ActionsDock::rewindRequested, this, &CheckpointActions::rewind);
  connect(dock_, &ActionsDock::branchRequested, this, &CheckpointActions::askForBranch);
}

void CheckpointActions::addActionsTo(QMenu* menu) {
  const auto from_kept = [this](void (CheckpointActions::*act)(qint64)) {
    return [this, act] {
      if (const auto step = checkpointAtOrBefore(selection_->step()))
        (this->*act)(*step);
      else
        messages_->say(withSettingLabels("No checkpoint is kept (telemetry.checkpoint_every)"), 6000);
    };
  };
  QAction* keep =
      menu->addAction("Keep a &checkpoint now", QKeySequence("Ctrl+Shift+K"), this, &CheckpointActions::keepNow);
  QAction* rewind = menu->addAction("&Rewind to the checkpoint before the cursor", QKeySequence("Ctrl+Backspace"), this,
                                    from_kept(&CheckpointActions::rewind));
  rewind->setToolTip("All runs return to this checkpoint; later steps are deleted");
  QAction* branch = menu->addAction("Bra&nch off from the checkpoint before the cursor...", QKeySequence("Ctrl+B"),
                                    this, from_kept(&CheckpointActions::askForBranch));
  branch->setToolTip("Train a twin from this checkpoint on, with another setting");
  offWithoutTraining(menu, {keep, rewind, branch});
}

void CheckpointActions::addActionsTo(QMenu* menu, qint64 step) {
  const auto checkpoints = this->keptCheckpoints();
  if (checkpoints.empty()) {
    menu->addAction("No checkpoints: only a model in training keeps them")->setEnabled(false);
    return;
  }
  qint64 nearest = checkpoints.front().step;
  for (const KeptCheckpoint& checkpoint : checkpoints)
    if (std::abs(checkpoint.step - step) < std::abs(nearest - step)) nearest = checkpoint.step;
  const qint64 newest_step = session_->live()->status().step;
  menu->addAction(
          QString("&Rewind to step %1 (deletes %2)").arg(nearest).arg(countedText(newest_step - nearest, "step")), this,
          [this, nearest] { rewind(nearest); })
      ->setToolTip("All runs go back to this checkpoint");
  menu->addAction(QString("&Branch off from step %1...").arg(nearest), this, [this, nearest] { askForBranch(nearest); })
      ->setToolTip("Train a twin from this step on, with another setting; the run itself does not change");
  menu->addSeparator();
  menu->addAction("&Keep a checkpoint now", this, &CheckpointActions::keepNow);
}

std::vector<KeptCheckpoint> CheckpointActions::keptCheckpoints() const {
  return session_->isLive() ? session_->live()->checkpoints() : std::vector<KeptCheckpoint>{};
}

std::optional<qint64> CheckpointActions::checkpointAtOrBefore(qint64 step) const {
  std::optional<qint64> found;
  for (const KeptCheckpoint& checkpoint : keptCheckpoints())
    if (checkpoint.step <= step || !found) found = checkpoint.step;
  return found;
}

void CheckpointActions::keepNow() {
  if (!session_->isLive()) return messages_->say(kNothingTrains, 6000);
  session_->live()->keep_checkpoint();
  messages_->say("Checkpoint kept", 4000);
}

void CheckpointActions::rewind(qint64 step) {
  if (const QString refused = session_->rewind(step); !refused.isEmpty()) return messages_->warn(refused);
  emit wentBack();
  messages_->say(QString("Rewound to step %1 and paused, with the settings of that step").arg(step), 8000);
  selection_->setFollowing(true);
}

void CheckpointActions::askForBranch(qint64 step) {
  if (!session_->isLive()) return;
  const int place = selection_->run();
  auto* dialog = new CompareDialog(session_->config(place), &RouterConfig::bias_update_rate, messages_->window(), step);
  connect(dialog, &CompareDialog::twinRequested, this, [this, place, step](const RunConfig& twin) {
    if (const QString refused = session_->branch(place, step, twin); !refused.isEmpty())
      return messages_->warn(refused);
    workspaces_->bringUp(workspaces_->compare());
  });
  dialog->open();
}

void CheckpointActions::showKept() {
  const auto checkpoints = this->keptCheckpoints();
  std::vector<std::int64_t> steps;
  for (const KeptCheckpoint& checkpoint : checkpoints) steps.push_back(checkpoint.step);
  workspaces_->timeline()->track()->setCheckpoints(steps);
  dock_->showCheckpoints(checkpoints);
}

}  // namespace moescope
