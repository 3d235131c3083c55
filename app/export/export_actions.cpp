#include "app/export/export_actions.h"

#include <QApplication>
#include <QClipboard>
#include <QCursor>
#include <QDateTime>
#include <QFileDialog>
#include <QFileInfo>
#include <QLabel>
#include <QMenu>
#include <QStandardPaths>
#include <QTemporaryDir>
#include <stdexcept>

#include "app/actions/file_actions.h"
#include "app/session/progress_job.h"
#include "app/session/run_session.h"
#include "app/workspaces/compare_workspace.h"
#include "app/workspaces/picture.h"
#include "app/workspaces/workspace_tabs.h"
#include "app/workspaces/workspaces.h"
#include "core/config/config_difference.h"
#include "core/files/whole_file.h"
#include "core/findings/comparison/training_recipe.h"
#include "core/findings/replay/replay_page.h"
#include "core/logs/file_kind.h"
#include "core/logs/log_exports.h"
#include "core/training/checkpoint_folder.h"
#include "widgets/cluster/layer_lanes.h"
#include "widgets/cluster/this_imbalance_panel.h"
#include "widgets/cluster/time_of_a_step_panel.h"
#include "widgets/look/counted_text.h"

namespace moescope {

ExportActions::ExportActions(const Context& context, const ComparedRuns* compared)
    : Actions(context), compared_(compared) {}

void ExportActions::addActionsTo(QMenu* file) {
  QMenu* menu = file->addMenu("&Export");
  menu->addAction("&Workspace as a picture (PNG, SVG)...", this, &ExportActions::exportWorkspace);
  menu->addAction("Ta&ble of the panel (CSV)...", this, [this] {
    if (Panel* panel = chosenPanel()) return workspaces_->current()->askAndSaveTable(panel);
    messages_->say("Click a panel first: its table is saved", 6000);
  });
  menu->addAction("&Report of the runs (HTML)...", this, &ExportActions::exportReport);
  menu->addAction("Repl&ay page of the runs, for a browser (HTML)...", this, &ExportActions::exportReplay);
  menu->addAction("Training recip&es of the compared runs (JSON)...", this, &ExportActions::exportRecipes);
  menu->addSeparator();
  menu->addAction("All steps as &JSON lines...", this,
                  [this] { exportRecording("Save JSON lines", "JSON lines (*.jsonl)", ".jsonl", export_jsonl); });
  menu->addAction("Scalars for &TensorBoard...", this, &ExportActions::exportEvents);
  menu->addAction("Times of the steps as a Chrome tra&ce...", this,
                  [this] { exportRecording("Save trace", "Traces (*.json)", ".trace.json", export_trace); });
  menu->addAction("Wei&ghts of the active run (safetensors)...", this, &ExportActions::exportWeights);
  menu->addAction("Save the modelled time&line as Chrome trace...", this, &ExportActions::exportTimeline);
  file->addAction("Save &picture of the window...", QKeySequence("Ctrl+P"), this, &ExportActions::savePictureOfWindow);
}

void ExportActions::addCopyActionTo(QMenu* menu) {
  QAction* copy = menu->addAction("&Copy the panel", QKeySequence::Copy, this, &ExportActions::copyPanel);
  copy->setWhatsThis("Copy the focused panel: its picture, and its figures as text");
}

QString ExportActions::suggested(const QString& suffix) const {
  const auto& histories = session_->histories();
  QString stem = histories.empty() ? QString("moescope") : QString::fromStdString(histories.front()->info().name);
  return QStandardPaths::writableLocation(QStandardPaths::DocumentsLocation) + '/' + stem.replace('/', '_') + suffix;
}

bool ExportActions::hasRuns() {
  if (!session_->histories().empty()) return true;
  messages_->warn("No run is open: there is nothing to export.");
  return false;
}

// True if the run is in a recording on disk, which alone holds all arrays of all steps. Shows a message otherwise.
bool ExportActions::hasRecording() {
  const bool is_file = !session_->path().isEmpty() && !session_->readsStandardInput();
  if (is_file && file_kind(session_->path().toStdString()) == FileKind::recording) return true;
  messages_->warn(
      "This run is not recorded, so not all of it is kept: train with a recording, or convert the log with "
      "moescope-cli import.");
  return false;
}

void ExportActions::showEndOf(ProgressJob* job, const QString& path) {
  connect(job, &ProgressJob::workDone, messages_, [this, path] { messages_->saySaved(path); });
  connect(job, &ProgressJob::failed, messages_, &Messages::warn);
}

void ExportActions::exportRecording(const QString& title, const QString& filter, const QString& suffix, Exporter work) {
  if (!hasRuns()) return;
  messages_->warnOfErrors([&] {
    if (!hasRecording()) return;
    messages_->saveAs(title, suggested(suffix), filter, [&](const QString& path) {
      if (LiveRuns* live = session_->live()) live->flush();
      const std::string from = session_->path().toStdString(), to = path.toStdString();
      showEndOf(new ProgressJob("Writing " + QFileInfo(path).fileName(), messages_->window(),
                                [=](const auto& progress) { return work(from, to, progress); }),
                path);
    });
  });
}

void ExportActions::exportEvents() {
  if (!hasRuns()) return;
  const QString folder = QFileDialog::getExistingDirectory(
      messages_->window(), "Folder for TensorBoard (a sub-folder per run)", QFileInfo(suggested("")).path());
  if (folder.isEmpty()) return;
  if (LiveRuns* live = session_->live()) live->flush();
  const auto histories = session_->histories();
  std::vector<std::string> names;
  for (const auto& history : histories) names.push_back(history->info().name);
  const std::vector<std::string> folders = event_folders(folder.toStdString(), names, true);
  const double start = QDateTime::currentSecsSinceEpoch();
  const auto work = [=](const std::function<bool(double)>& progress) {
    for (std::size_t i = 0; i < histories.size(); ++i) {
      const auto part = [&](double share) { return progress((i + share) / histories.size()); };
      if (export_events(*histories[i], folders[i], start, part).empty()) return false;
    }
    return true;
  };
  showEndOf(new ProgressJob("Writing events", messages_->window(), work), folder);
}

// Exports the present weights of a run in training, or those of the newest checkpoint of a recording.
void ExportActions::exportWeights() {
  if (!hasRuns()) return;
  messages_->warnOfErrors([&] {
    const int place = selection_->run();
    const std::string run = session_->histories()[place]->info().name;
    std::string from;
    if (!session_->isLive()) from = kept_checkpoint(session_->path().toStdString(), run, {});
    messages_->saveAs("Save weights", suggested(".safetensors"), "Tensors (*.safetensors)", [&](const QString& path) {
      const QTemporaryDir folder;
      if (LiveRuns* live = session_->live()) {
        live->save_checkpoint(folder.path().toStdString());
        live->flush();
        const auto files = newest_checkpoint(folder.path().toStdString());
        from = files.at(std::min(static_cast<std::size_t>(place), files.size() - 1));
      }
      const int tensors = export_weights(from, path.toStdString());
      messages_->say(QString("Saved %1 in %2").arg(countedText(tensors, "tensor"), path), 8000);
    });
  });
}

void ExportActions::exportReport() {
  if (!hasRuns()) return;
  messages_->saveAs("Save report", suggested(session_->histories().size() > 1 ? "-comparison.html" : ".html"),
                    "Reports (*.html)", [this](const QString& path) {
                      QApplication::setOverrideCursor(Qt::WaitCursor);
                      const QByteArray text = report(reportSource());
                      QApplication::restoreOverrideCursor();
                      write_whole_file(path.toStdString(), text.toStdString());
                      messages_->saySaved(path);
                    });
}

void ExportActions::exportReplay() {
  if (!hasRuns()) return;
  messages_->saveAs("Save replay page", suggested("-replay.html"), "Pages (*.html)",
                    [this](const QString& path) { saveReplay(path); });
}

void ExportActions::exportRecipes() {
  if (!hasRuns()) return;
  messages_->warnOfErrors([this] {
    const std::string text = compared_recipes(replayRuns());
    messages_->saveAs("Save training recipes", suggested("-recipes.json"), "Training recipes (*.json)",
                      [&](const QString& path) {
                        write_whole_file(path.toStdString(), text);
                        messages_->saySaved(path);
                      });
  });
}

std::vector<ReplayRun> ExportActions::replayRuns() const {
  if (LiveRuns* live = session_->live()) live->flush();
  std::vector<ReplayRun> runs;
  for (const HistoryPtr& history : selection_->histories()) {
    ReplayRun run{history};
    if (runs.size() < compared_->runs().size()) {
      const ComparedRun& compared = compared_->runs()[runs.size()];
      run.same_start = compared.same_start;
      if (compared.noise_twin) run.twin = compared.twin_until ? compared.twin_until : history;
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

void ExportActions::saveReplay(const QString& path) {
  std::vector<ReplayRun> runs = replayRuns();
  const auto setup = sharedSetup(*session_, *selection_, *workspaces_);
  if (setup && !runs.empty()) runs.front().setup = setup_link(*setup);
  const auto work = [runs, to = path.toStdString()](const std::function<bool(double)>& progress) {
    const std::string page = replay_page(runs, {}, progress);
    if (page.empty() || !progress(1)) return false;
    write_whole_file(to, page);
    return true;
  };
  showEndOf(new ProgressJob("Writing " + QFileInfo(path).fileName(), messages_->window(), work), path);
}

ReportSource ExportActions::reportSource() const {
  ReportSource source;
  source.selection = selection_;
  source.compared = compared_;
  source.judged = workspaces_->compare()->judged();
  source.configs = session_->configs();
  source.file = QFileInfo(session_->path()).fileName();
  const auto take = [](const Workspace* workspace, std::initializer_list<const char*> docks, QList<Panel*>& into) {
    for (const char* dock : docks)
      if (Panel* panel = workspace->panel(dock)) into << panel;
  };
  if (session_->histories().size() > 1) source.verdicts = workspaces_->compare()->panel("dock_compare_table");
  if (session_->histories().size() > 1)
    take(workspaces_->compare(), {"dock_compare_loss", "dock_compare_gap", "dock_compare_gradient"},
         source.panels_of_all_runs);
  else
    take(workspaces_->overview(), {"dock_loss"}, source.panels_of_all_runs);
  take(workspaces_->overview(), {"dock_quant_error"}, source.panels_of_one_run);
  if (!comparesForced(*selection_)) {
    if (session_->histories().size() > 1)
      take(workspaces_->compare(), {"dock_compare_load_difference", "dock_compare_flips"}, source.panels_of_all_runs);
    take(workspaces_->router(), {"dock_router_load_over_time", "dock_router_balance"}, source.panels_of_one_run);
    take(workspaces_->overview(), {"dock_expert_load", "dock_all_to_all"}, source.panels_of_one_run);
  }
  take(workspaces_->cluster(), {"dock_cluster_live_cost", "dock_cluster_layers"}, source.cluster_panels);
  source.cost = workspaces_->cluster()->findChild<ThisImbalancePanel*>();
  return source;
}

void ExportActions::exportWorkspace() {
  Workspace* workspace = workspaces_->current();
  messages_->saveAs("Save picture of the workspace", suggested("-" + workspace->name().toLower() + ".png"),
                    "Pictures (*.png *.svg)", [&](const QString& path) {
                      saveWorkspacePicture(workspace, *selection_, path);
                      messages_->saySaved(path);
                    });
}

void ExportActions::saveTimeline(const QString& path) {
  const LayerLanes* timeline = workspaces_->cluster()->stepTime()->lanes();
  if (!timeline->hasTimeline())
    throw std::runtime_error(
        "There is no timeline to save: the panel Time of a step in the workspace Cluster has no result.");
  write_whole_file(path.toStdString(), timeline->chromeTrace());
  messages_->say("Saved " + path + "; ui.perfetto.dev opens it", 8000);
}

void ExportActions::exportTimeline() {
  workspaces_->bringUp(workspaces_->cluster());
  messages_->saveAs("Save the modelled timeline", "moescope-timeline.json", "Chrome traces (*.json)",
                    [this](const QString& path) { saveTimeline(path); });
}

void ExportActions::savePictureOfWindow() {
  const QString folder = QStandardPaths::writableLocation(QStandardPaths::PicturesLocation);
  messages_->saveAs("Save picture", folder + "/moescope.png", "Pictures (*.png)",
                    [this](const QString& path) { Workspace::savePicture(messages_->window(), path); });
}

// Returns the panel with the keyboard focus, else the panel under the mouse; nullptr if there is none.
Panel* ExportActions::chosenPanel() const {
  for (QWidget* start : {QApplication::focusWidget(), QApplication::widgetAt(QCursor::pos())})
    for (QWidget* at = start; at; at = at->parentWidget())
      if (auto* panel = qobject_cast<Panel*>(at); panel && messages_->window()->isAncestorOf(panel)) return panel;
  return nullptr;
}

void ExportActions::copyPanel() {
  const auto* text = qobject_cast<QLabel*>(QApplication::focusWidget());
  if (text && text->hasSelectedText()) {  // for example a line of code of a lesson
    QApplication::clipboard()->setText(text->selectedText().replace(QChar::Nbsp, ' '));
    return messages_->say("Copied the selected text");
  }
  Panel* panel = chosenPanel();
  if (!panel) return messages_->say("Click a panel first: its picture and its figures are copied", 6000);
  QApplication::clipboard()->setMimeData(panelMimeData(panel, *selection_));
  messages_->say("Copied " + panel->title() + ": its picture, and its figures as text");
}

}  // namespace moescope
