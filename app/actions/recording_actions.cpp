#include "app/actions/recording_actions.h"

#include <QFileInfo>
#include <QMenu>
#include <QMessageBox>
#include <vector>

#include "app/session/kernel_question.h"
#include "app/session/progress_job.h"
#include "app/session/run_session.h"
#include "core/training/checkpoint_folder.h"
#include "core/training/engine/retrain.h"
#include "core/training/trainer.h"
#include "widgets/selection/selection.h"

namespace moescope {

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
