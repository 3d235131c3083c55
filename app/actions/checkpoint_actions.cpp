#include "app/actions/checkpoint_actions.h"

#include <QFileInfo>
#include <QMenu>
#include <QMessageBox>
#include <cstdlib>

#include "app/docks/side_docks.h"
#include "app/session/kernel_question.h"
#include "app/session/progress_job.h"
#include "app/session/run_session.h"
#include "app/setup/compare_dialog.h"
#include "app/workspaces/compare_workspace.h"
#include "app/workspaces/workspace_tabs.h"
#include "core/training/checkpoint_folder.h"
#include "core/training/engine/retrain.h"
#include "core/training/trainer.h"
#include "widgets/look/counted_text.h"
#include "widgets/look/setting_labels.h"
#include "widgets/overview/timeline_bar.h"
#include "widgets/selection/selection.h"

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

RecordingActions::RecordingActions(const Context& context) : Actions(context) {}

void RecordingActions::addActionsTo(QMenu* menu) {
  QAction* go_on =
      menu->addAction("Cont&inue this recording from its checkpoint", this, &RecordingActions::continueTraining);
  QAction* reproduce = menu->addAction("Reprod&uce this recording...", this, &RecordingActions::askToReproduce);
  reproduce->setToolTip("Train this recording again and compare every loss to the bit");
  menu->setToolTipsVisible(true);
  connect(menu, &QMenu::aboutToShow, this, [this, go_on, reproduce] {
    const bool recording = session_->showsLog() && !session_->isFollowing();
    const auto steps =
        recording ? checkpoint_steps(checkpoints_of(session_->path().toStdString())) : std::vector<std::int64_t>{};
    go_on->setText(steps.empty()
                       ? QString("Cont&inue this recording from its checkpoint")
                       : QString("Cont&inue this recording from step %1").arg(checkpoint_at(steps, stepsUpToCursor())));
    go_on->setToolTip(
        steps.empty()
            ? "This recording has no checkpoints beside it"
            : "Train on from the last checkpoint before the cursor, into a new recording; this one does not change");
    go_on->setEnabled(!steps.empty());
    reproduce->setEnabled(recording);
  });
  enableWhenClosed(menu, {go_on, reproduce});
}

// Number of steps up to and including the cursor's step; a checkpoint of step N follows N steps.
std::int64_t RecordingActions::stepsUpToCursor() const {
  return selection_->step() + 1;
}

void RecordingActions::continueTraining() {
  const QString folder = QString::fromStdString(checkpoints_of(session_->path().toStdString()));
  if (!session_->showsLog() || checkpoint_steps(folder.toStdString()).empty())
    return messages_->warn("Open a recording that has checkpoints first: recordings of this window have them");
  const auto go_on = [this, folder] {
    const QString name = QFileInfo(session_->path()).completeBaseName();
    session_->resume(folder, recordingPlace(name), stepsUpToCursor());
  };
  std::string kernels;
  try {
    kernels = checkpoint_kernels(newest_checkpoint(folder.toStdString(), stepsUpToCursor()).front());
  } catch (const std::exception& damaged) {
    return messages_->warn(QString::fromUtf8(damaged.what()));
  }
  withKernelsAsked(messages_->window(), kernels, session_->paths(), go_on);
}

void RecordingActions::askToReproduce() {
  if (!session_->showsLog() || session_->isFollowing()) return messages_->warn("Open a recording first");
  const RunInfo first = session_->histories().front()->info();
  const std::shared_ptr<const History> history = session_->histories()[selection_->run()];
  if (const std::string problem = reproduce_problem(first, *history); !problem.empty())
    return messages_->warn(QString::fromStdString(problem));
  withKernelsAsked(messages_->window(), history->info().kernels, session_->paths(),
                   [=, this] { reproduce(first, history); });
}

void RecordingActions::reproduce(const RunInfo& first, const std::shared_ptr<const History>& history) {
  auto result = std::make_shared<Reproduction>();
  QStringList notes{"Training " + QString::fromStdString(history->info().name) + " once more"};
  for (const std::string& input : inputs_to_reproduce(first, history->info()))
    notes << "It reads " + QString::fromStdString(input);
  if (const QString note = kernelsNote(history->info().kernels); !note.isEmpty()) notes << note;
  const QString name = QString::fromStdString(history->info().name);
  auto* job = new ProgressJob(notes.join('\n'), messages_->window(), [=](const auto& progress) {
    *result = moescope::reproduce(first, *history, -1, [&](std::int64_t done, std::int64_t all) {
      return progress(done / static_cast<double>(all));
    });
    return result->differs_at >= 0 || result->compared == history->steps().size();
  });
  connect(job, &ProgressJob::failed, messages_, &Messages::warn);
  connect(job, &ProgressJob::workDone, this, [this, result, name] {
    auto* box =
        new QMessageBox(result->differs_at < 0 ? QMessageBox::Information : QMessageBox::Warning, "Reproduced",
                        name + ": " + QString::fromStdString(result->text()), QMessageBox::Ok, messages_->window());
    box->setObjectName("reproduction");
    box->setAttribute(Qt::WA_DeleteOnClose);
    box->open();
    if (result->differs_at >= 0) selection_->setStep(result->differs_at);
  });
}

}  // namespace moescope
