#include "app/export/export_menu.h"

#include <QApplication>
#include <QClipboard>
#include <QCursor>
#include <QDateTime>
#include <QFileDialog>
#include <QFileInfo>
#include <QStandardPaths>
#include <QStatusBar>
#include <QTemporaryDir>
#include <stdexcept>

#include "app/export/export_request.h"
#include "app/export/report.h"
#include "app/session/progress_job.h"
#include "app/window/main_window.h"
#include "app/workspaces/picture.h"
#include "app/workspaces/workspace.h"
#include "core/files/export_events.h"
#include "core/files/file_kind.h"
#include "core/io/whole_file.h"
#include "core/telemetry/logs/export_jsonl.h"
#include "core/telemetry/logs/export_trace.h"
#include "core/training/checkpoint_folder.h"
#include "core/training/export_weights.h"

namespace moescope {

namespace {

QString suggested(const MainWindow& window, const QString& suffix) {
  MainWindow& open = const_cast<MainWindow&>(window);
  const auto& histories = open.session()->histories();
  QString stem = histories.empty() ? QString("moescope") : QString::fromStdString(histories.front()->info().name);
  return QStandardPaths::writableLocation(QStandardPaths::DocumentsLocation) + '/' + stem.replace('/', '_') + suffix;
}

void complain(MainWindow* window, const QString& message) {
  emit window->workspace()->failed(message);
}

void guarded(MainWindow* window, const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception& e) {
    complain(window, QString::fromUtf8(e.what()));
  }
}

void saySaved(MainWindow* window, const QString& path) {
  emit window->workspace()->saved(path);
}

bool hasRuns(MainWindow* window) {
  if (!window->session()->histories().empty()) return true;
  complain(window, "No run is open: there is nothing to export.");
  return false;
}

// Everything of every step is on disk only.
bool hasRecording(MainWindow* window) {
  const RunSession* session = window->session();
  if (!session->path().isEmpty() && file_kind(session->path().toStdString()) == FileKind::recording) return true;
  complain(window,
           "This run is not recorded, so not all of it is kept: train with a recording, or convert the log with "
           "moescope-cli import.");
  return false;
}

void exportRecording(MainWindow* window, const QString& title, const QString& filter, const QString& suffix,
                     bool (*work)(const std::string&, const std::string&, const std::function<bool(double)>&)) {
  if (!hasRuns(window)) return;
  guarded(window, [&] {
    if (!hasRecording(window)) return;
    const QString path = QFileDialog::getSaveFileName(window, title, suggested(*window, suffix), filter);
    if (path.isEmpty()) return;
    if (Lab* lab = window->session()->lab()) lab->flush();
    const std::string from = window->session()->path().toStdString(), to = path.toStdString();
    auto* job = new ProgressJob("Writing " + QFileInfo(path).fileName(), window,
                                [=](const auto& progress) { return work(from, to, progress); });
    QObject::connect(job, &ProgressJob::done, window, [window, path] { saySaved(window, path); });
    QObject::connect(job, &ProgressJob::failed, window, [window](const QString& why) { complain(window, why); });
  });
}

void exportEvents(MainWindow* window) {
  if (!hasRuns(window)) return;
  const QString folder = QFileDialog::getExistingDirectory(window, "Folder for TensorBoard (a sub-folder per run)",
                                                           QFileInfo(suggested(*window, "")).path());
  if (folder.isEmpty()) return;
  if (Lab* lab = window->session()->lab()) lab->flush();
  const auto histories = window->session()->histories();
  const std::string to = folder.toStdString();
  const double start = static_cast<double>(QDateTime::currentSecsSinceEpoch());
  auto* job = new ProgressJob("Writing events", window, [=](const std::function<bool(double)>& progress) {
    double done = 0;
    for (const auto& history : histories) {
      const auto part = [&](double share) { return progress((done + share) / static_cast<double>(histories.size())); };
      if (export_events(*history, to, start, part).empty()) return false;
      done += 1;
    }
    return true;
  });
  QObject::connect(job, &ProgressJob::done, window, [window, folder] { saySaved(window, folder); });
  QObject::connect(job, &ProgressJob::failed, window, [window](const QString& why) { complain(window, why); });
}

// Of a model in training those of now; of a recording those of its newest checkpoint.
void exportWeights(MainWindow* window) {
  if (!hasRuns(window)) return;
  guarded(window, [&] {
    const RunSession* session = window->session();
    const int place = window->selection()->run();
    const std::string run = session->histories()[static_cast<std::size_t>(place)]->info().name;
    std::string from;
    if (!session->isLive()) from = kept_checkpoint(session->path().toStdString(), run, {});
    const QString path = QFileDialog::getSaveFileName(window, "Save weights", suggested(*window, ".safetensors"),
                                                      "Tensors (*.safetensors)");
    if (path.isEmpty()) return;
    const QTemporaryDir folder;
    if (Lab* lab = session->lab()) {
      lab->save_checkpoint(folder.path().toStdString());
      lab->flush();
      const auto files = newest_checkpoint(folder.path().toStdString());
      from = files.at(std::min(static_cast<std::size_t>(place), files.size() - 1));
    }
    const int tensors = export_weights(from, path.toStdString());
    window->statusBar()->showMessage(QString("saved %1 tensors in %2").arg(tensors).arg(path), 8000);
  });
}

void exportReport(MainWindow* window) {
  if (!hasRuns(window)) return;
  const QString path =
      QFileDialog::getSaveFileName(window, "Save report", suggested(*window, ".html"), "Reports (*.html)");
  if (path.isEmpty()) return;
  guarded(window, [&] {
    QApplication::setOverrideCursor(Qt::WaitCursor);
    const QByteArray text = report(reportSource(window));
    QApplication::restoreOverrideCursor();
    write_whole_file(path.toStdString(), text.toStdString());
    saySaved(window, path);
  });
}

void exportWorkspace(MainWindow* window) {
  const QString path = QFileDialog::getSaveFileName(
      window, "Save picture of the workspace", suggested(*window, "-" + window->workspace()->name().toLower() + ".png"),
      "Pictures (*.png *.svg)");
  if (path.isEmpty()) return;
  guarded(window, [&] {
    saveWorkspaceFigure(window->workspace(), *window->selection(), path);
    saySaved(window, path);
  });
}

}  // namespace

Panel* chosenPanel(MainWindow* window) {
  for (QWidget* start : {QApplication::focusWidget(), QApplication::widgetAt(QCursor::pos())})
    for (QWidget* at = start; at; at = at->parentWidget())
      if (auto* panel = qobject_cast<Panel*>(at); panel && window->isAncestorOf(panel)) return panel;
  return nullptr;
}

void fillExportMenu(MainWindow* window, QMenu* menu) {
  menu->addAction("&Workspace as a picture (PNG, SVG)...", window, [window] { exportWorkspace(window); });
  menu->addAction("&Report of the runs (HTML)...", window, [window] { exportReport(window); });
  menu->addSeparator();
  menu->addAction("All steps as &JSON lines...", window, [window] {
    exportRecording(window, "Save JSON lines", "JSON lines (*.jsonl)", ".jsonl", export_jsonl);
  });
  menu->addAction("Scalars for &TensorBoard...", window, [window] { exportEvents(window); });
  menu->addAction("Times of the steps as a Chrome tra&ce...", window,
                  [window] { exportRecording(window, "Save trace", "Traces (*.json)", ".trace.json", export_trace); });
  menu->addAction("Wei&ghts of the active run (safetensors)...", window, [window] { exportWeights(window); });
}

void addCopyAction(MainWindow* window, QMenu* menu) {
  QAction* copy = menu->addAction("&Copy the panel", QKeySequence::Copy, window, [window] {
    Panel* panel = chosenPanel(window);
    if (!panel)
      return window->statusBar()->showMessage("Click a panel first: its picture and its figures are copied", 6000);
    QApplication::clipboard()->setMimeData(panelMimeData(panel, *window->selection()));
    window->statusBar()->showMessage("Copied " + panel->title() + ": its picture, and its figures as text", 5000);
  });
  copy->setWhatsThis("Copy the focused panel: its picture, and its figures as text");
}

}  // namespace moescope
