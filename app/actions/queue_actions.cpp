#include "app/actions/queue_actions.h"

#include <QFileDialog>
#include <QFileInfo>
#include <QMenu>
#include <algorithm>
#include <stdexcept>
#include <utility>

#include "app/actions/file_actions.h"
#include "app/bars/status_line.h"
#include "app/docks/outcomes_view.h"
#include "app/session/kernel_question.h"
#include "app/session/progress_job.h"
#include "app/session/run_session.h"
#include "app/session/settings.h"
#include "app/workspaces/compare_workspace.h"
#include "app/workspaces/workspace_tabs.h"
#include "core/config/config_difference.h"
#include "core/training/engine/run_queue.h"
#include "widgets/compare/verdicts_panel.h"
#include "widgets/look/counted_text.h"
#include "widgets/selection/selection.h"

namespace moescope {

QueueActions::QueueActions(const Context& context, OutcomesView* outcomes, NoticeBar* notice, FileActions* files)
    : Actions(context), outcomes_(outcomes), notice_(notice), files_(files) {
  connect(outcomes_, &OutcomesView::begun, this, [this](const QString& recording, const QString& run) {
    const bool nothing_open = session_->histories().empty() && !session_->opening();
    // The file was replaced when its group began to train again.
    const bool replaced = session_->showsLog() && session_->path() == recording;
    if (replaced) files_->open({recording});
    if (nothing_open) openCandidate(recording, run);
  });
  connect(outcomes_, &OutcomesView::takeUpRequested, this, &QueueActions::continueQueue);
  connect(outcomes_, &OutcomesView::openRequested, this, &QueueActions::openCandidate);
  connect(outcomes_, &OutcomesView::runChosen, this, [this](const QString& recording, const QString& run) {
    if (session_->showsLog() && session_->path() == recording) openCandidate(recording, run);
  });
  connect(outcomes_, &OutcomesView::failed, messages_, &Messages::warn);
  connect(outcomes_, &OutcomesView::shown, this, &QueueActions::showOutcomes);
  workspaces_->compare()->verdicts()->addView("Candidates", outcomes_,
                                              [this] { return outcomes_table(outcomes_->outcomes()); });
  connect(files_, &FileActions::queueOpened, this, &QueueActions::continueQueue);
  connect(session_, &RunSession::opened, this, &QueueActions::chooseAskedRun);
  connect(session_, &RunSession::opened, this, &QueueActions::offerQueueOfOpened);
  // Runs of a recording that is still being written appear with their first steps.
  connect(session_, &RunSession::runsChanged, this, &QueueActions::chooseAskedRun);
}

void QueueActions::addActionsTo(QMenu* menu) {
  menu->addAction("&Outcomes of many candidates", QKeySequence(Qt::Key_F8), this, &QueueActions::showOutcomes)
      ->setToolTip("Results of candidates that train in groups; \"Compare with...\" takes up to sixteen");
}

void QueueActions::showOutcomes() {
  workspaces_->bringUp(workspaces_->compare());
  workspaces_->compare()->verdicts()->showView(1);
}

bool QueueActions::mayTrain() {
  if (outcomes_->training())
    messages_->warn("Other candidates are in training: cancel them under Outcomes (F8), or wait until they are done.");
  return !outcomes_->training();
}

void QueueActions::train(std::unique_ptr<RunQueue> queue) {
  LiveRuns* live = session_->live();
  if (live && !queue->status().done) live->pause();  // the live run would take processor time from the candidates
  outcomes_->start(std::move(queue));
}

void QueueActions::start(std::vector<RunConfig> runs, qint64 steps) {
  if (!mayTrain()) return;
  // Noise twins train first, since the verdicts on the others need them.
  std::stable_partition(runs.begin() + 1, runs.end(),
                        [&](const RunConfig& run) { return is_noise_twin(runs.front(), run); });
  messages_->warnOfErrors([&] {
    const QString recording = newRecordingPath(QString::fromStdString(runs.front().name) + "-groups");
    std::vector<RunGroup> groups = candidate_groups(runs, recording.toStdString());
    train(std::make_unique<RunQueue>(std::move(groups), steps, recording.toStdString()));
  });
}

void QueueActions::continueQueue(QString queue_file) {
  if (!mayTrain()) return;
  if (queue_file.isEmpty())
    queue_file = QFileDialog::getOpenFileName(messages_->window(), "Earlier candidates", recordingsFolder(),
                                              "Queues of candidates (*.queue)");
  if (queue_file.isEmpty()) return;
  const std::string recording = recording_of_queue(queue_file.toStdString());
  const auto queue = std::make_shared<std::unique_ptr<RunQueue>>();
  auto* job = new ProgressJob("Reading the results of " + QFileInfo(queue_file).completeBaseName(), messages_->window(),
                              [=](const std::function<bool(double)>& progress) {
                                *queue = RunQueue::take_up(recording, progress);
                                return *queue != nullptr;
                              });
  connect(job, &ProgressJob::failed, messages_,
          [this](const QString& reason) { messages_->warn("These candidates cannot be opened: " + reason); });
  connect(job, &ProgressJob::workDone, this, [=, this] {
    const auto go_on = [=, this] {
      if (*queue && mayTrain()) train(std::move(*queue));
    };
    const QString first = QString::fromStdString(path_of_group(recording, 1));
    (*queue)->status().done ? go_on() : withKernelsAsked(messages_->window(), (*queue)->kernels(), {first}, go_on);
  });
}

// Offers to continue the queue, or to show its outcomes, if the opened recording is a group of candidates.
void QueueActions::offerQueueOfOpened() {
  if (session_->isLive() || session_->paths().size() != 1) return;
  const QString path = session_->path();
  const QString queue = QString::fromStdString(queue_file_beside(path.toStdString()));
  if (queue.isEmpty() || queue == QString::fromStdString(queue_file_of(outcomes_->recording().toStdString()))) return;
  try {
    const QueueState state = load_queue(queue.toStdString());
    const int groups = to_int(candidate_groups(state.runs).size());
    const bool done = state.finished >= groups;
    const QString text = QString("A group of %1, trained in turn; so far: %2 of %3.")
                             .arg(countedText(state.runs.size() - 1, "candidate"))
                             .arg(state.finished)
                             .arg(countedText(groups, "group"));
    const QString before = notice_->isVisible() ? notice_->text() + '\n' : QString();
    notice_->offer(before + text,
                   {{done ? "Show their outcomes" : "Train the others", [this, queue] { continueQueue(queue); }}});
  } catch (const std::runtime_error&) {
    return;  // without a readable queue file the recording is opened on its own
  }
}

void QueueActions::openCandidate(const QString& recording, const QString& run) {
  asked_recording_ = recording;
  asked_run_ = run;
  if (session_->path() == recording && session_->showsLog()) return chooseAskedRun();
  files_->open({recording});
}

void QueueActions::chooseAskedRun() {
  if (asked_run_.isEmpty() || session_->path() != asked_recording_) return;
  const auto& histories = session_->histories();
  for (int place = 0; place < to_int(histories.size()); ++place) {
    if (QString::fromStdString(histories[place]->info().name) != asked_run_) continue;
    selection_->setRun(place);
    workspaces_->bringUp(workspaces_->compare());
    asked_run_.clear();
    return;
  }
}

}  // namespace moescope
