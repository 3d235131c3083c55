#include "app/program/screenshot.h"

#include <QApplication>
#include <QTimer>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <utility>

#include "app/actions/file_actions.h"
#include "app/actions/run_control.h"
#include "app/export/export_actions.h"
#include "app/lessons/lesson_actions.h"
#include "app/lessons/lesson_guide.h"
#include "app/session/run_session.h"
#include "app/window/frame_clock.h"
#include "app/window/main_window.h"
#include "app/workspaces/picture.h"
#include "app/workspaces/workspace_tabs.h"
#include "app/workspaces/workspaces.h"
#include "core/files/text/text_escape.h"
#include "core/files/whole_file.h"
#include "core/logs/runs_in_folder.h"
#include "core/recording/history/step_axis.h"
#include "widgets/microscaling/tensor_lab.h"
#include "widgets/microscaling/tensors_panel.h"
#include "widgets/microscaling/what_if_panel.h"
#include "widgets/overview/findings_watch.h"

namespace moescope {

namespace {

constexpr int kPanelPollMs = 50;
constexpr int kMaxWaitMs = 30000, kMaxStepWaitMs = 60000;
constexpr int kLayoutMs = 200;  // time for layouts and scroll bars to settle in the event loop

// Ends the event loop; a problem is printed to stderr and makes the exit code 1.
void quitWith(const QString& problem) {
  if (!problem.isEmpty()) std::fprintf(stderr, "moescope: %s\n", printable_lines(problem.toStdString()).c_str());
  // Queued, since opening can fail before the event loop runs.
  QTimer::singleShot(0, qApp, [code = problem.isEmpty() ? 0 : 1] { QApplication::exit(code); });
}

// Calls `action`; if it throws, prints the error, quits and returns false.
bool guardedQuit(const std::function<void()>& action) {
  try {
    action();
    return true;
  } catch (const std::exception& e) {
    quitWith(QString::fromUtf8(e.what()));
    return false;
  }
}

// Quits with an error if the window asks which runs to open, what names of a log mean, or whether to train on a text.
void quitWhereAsked(MainWindow* window) {
  QObject::connect(window->files(), &FileActions::askedWhichRuns, window,
                   [](const QString& path) { quitWith(path + ": holds several runs; name one of them"); });
  QObject::connect(window->session(), &RunSession::meaningWanted, window,
                   [](const QStringList& paths, const ImportAccount& account) {
                     quitWith(paths.join(", ") + ": no run: " + QString::fromStdString(account.refusal));
                   });
  QObject::connect(window->files(), &FileActions::askedToTrainOn, window, [](const QString& path) {
    quitWith(QString::fromStdString(no_runs_in(path.toStdString(), FileKind::text)));
  });
}

// Calls `then` once no panel has the property "busy", which panels with a worker set while they compute, and the
// verdict has its findings up to step `judged_to`; at the latest after `wait_ms`.
void waitForPanels(MainWindow* window, const std::function<void()>& action, std::int64_t judged_to, int wait_ms) {
  const QList<Panel*> panels = window->workspaces()->current()->panels();
  const FindingsWatch* findings = window->findings();
  const bool judged = !window->selection()->history() || (findings->ready() && findings->lastStep() >= judged_to);
  const bool busy = !judged || std::ranges::any_of(panels, [](const Panel* panel) {
    return panel->isVisible() && panel->property("busy").toBool();
  });
  if (!busy || wait_ms <= 0) return QTimer::singleShot(kLayoutMs, window, action);
  QTimer::singleShot(kPanelPollMs, window, [=] { waitForPanels(window, action, judged_to, wait_ms - kPanelPollMs); });
}

// Calls `action` once all frames have arrived and no panel is busy.
void whenPanelsAreReady(MainWindow* window, const std::function<void()>& action) {
  if (LiveRuns* live = window->session()->live()) live->flush();
  window->selection()->refresh();
  window->frameClock()->wake();
  const auto& histories = window->selection()->histories();
  const std::int64_t judged_to = histories.empty() ? -1 : histories.front()->steps().last;
  QTimer::singleShot(kLayoutMs, window, [=] { waitForPanels(window, action, judged_to, kMaxWaitMs); });
}

void finish(MainWindow* window, const QString& path) {
  whenPanelsAreReady(window, [window, path] {
    if (guardedQuit([&] { Workspace::savePicture(window, path); })) quitWith({});
  });
}

void finishOnce(const std::function<bool()>& ready, MainWindow* window, const QString& path) {
  auto* poll = new QTimer(window);
  QObject::connect(poll, &QTimer::timeout, window, [=] {
    if (!ready()) return;
    poll->stop();
    finish(window, path);
  });
  poll->start(kPanelPollMs);
}

// Takes the picture of a file of tensors, which opens no session. Waits until What if, the slowest panel, has its
// figures.
void finishWithTensors(MainWindow* window, const QString& path) {
  const TensorLab* lab = window->workspaces()->microscaling()->tensorLab();
  const auto ready = [lab, waited = 0]() mutable {
    waited += kPanelPollMs;
    return !lab->whatIf()->tree()->schemes().empty() || !lab->browser()->error().isEmpty() || waited >= kMaxWaitMs;
  };
  finishOnce(ready, window, path);
}

// True if a file holds tensors. Unreadable files are reported elsewhere.
bool holdsTensors(const QString& path) {
  try {
    return file_kind(path.toStdString()) == FileKind::tensors;
  } catch (const std::exception&) {
    return false;
  }
}

// Compares names without regard to case, spaces, hyphens and underscores.
bool sameName(const QString& a, const QString& b) {
  const auto plain = [](QString text) { return text.remove(' ').remove('-').remove('_').toLower(); };
  return plain(a) == plain(b);
}

QString panelNames(const WorkspaceTabs& workspaces) {
  QString text;
  for (const Workspace* workspace : workspaces.all())
    for (const Panel* panel : workspace->panels()) text += workspace->name().toLower() + ": " + panel->title() + "\n";
  return text;
}

struct Place {
  Workspace* workspace = nullptr;
  Panel* panel = nullptr;
};

// Finds a panel in the requested workspace, or in the first workspace that has it.
Place findPanel(const WorkspaceTabs& workspaces, const QString& name, const QString& in_workspace) {
  for (Workspace* workspace : workspaces.all()) {
    if (!in_workspace.isEmpty() && !sameName(workspace->name(), in_workspace)) continue;
    for (Panel* panel : workspace->panels())
      if (sameName(panel->title(), name)) return {workspace, panel};
  }
  throw std::runtime_error(
      ("--panel: there is no \"" + name + "\"; the panels are\n" + panelNames(workspaces)).toStdString());
}

void write(MainWindow* window, const ExportRequest& request, QSize size, Panel* panel) {
  if (request.to == "html")
    write_whole_file(request.out.toStdString(), report(window->exports()->reportSource()).toStdString());
  else if (request.to == "csv")
    write_whole_file(request.out.toStdString(), panel->csvFile().toStdString());
  else if (panel)
    savePanelPicture(panel, *window->selection(), request.out, request.to, size);
  else
    saveWorkspacePicture(window->workspaces()->current(), *window->selection(), request.out, request.to);
}

void exportOpened(MainWindow* window, const Arguments& arguments) {
  const ExportRequest request = arguments.export_request;
  guardedQuit([&] {
    Place place{window->workspaces()->current(), nullptr};
    if (!request.panel.isEmpty()) {
      place = findPanel(*window->workspaces(), request.panel, arguments.workspace);
      window->workspaces()->bringUp(place.workspace, place.panel);
    }
    if (request.step) window->selection()->setStep(*request.step);
    whenPanelsAreReady(window, [window, request, size = arguments.size, panel = place.panel] {
      if (guardedQuit([&] { write(window, request, size, panel); })) quitWith({});
    });
  });
}

}  // namespace

void takeScreenshot(MainWindow* window, const Arguments& arguments) {
  const QString path = arguments.screenshot;
  QObject::connect(window, &MainWindow::failed, window, quitWith);
  quitWhereAsked(window);
  if (!arguments.files.isEmpty()) {
    QObject::connect(window->session(), &RunSession::opened, window, [window, path] { finish(window, path); });
    window->files()->open(arguments.files);
    if (holdsTensors(arguments.files.front())) finishWithTensors(window, path);
    return;
  }
  if (!arguments.follow.isEmpty()) {
    const qint64 after = arguments.after_steps.value_or(1);
    const auto ready = [window, after, reached = qint64(-1), waited = 0]() mutable {
      const auto& histories = window->session()->histories();
      const qint64 steps = histories.empty() ? 0 : histories.front()->count();
      waited = std::exchange(reached, steps) == steps ? waited + kPanelPollMs : 0;
      if (waited == kMaxStepWaitMs)
        quitWith(QString("--follow: no new step for %1 s: %2 of %3 steps; start it once the log has them")
                     .arg(kMaxStepWaitMs / 1000)
                     .arg(steps)
                     .arg(after));
      return steps >= after;
    };
    finishOnce(ready, window, path);
    return window->session()->follow(arguments.follow);
  }
  window->runControl()->setRecorded(false);
  if (!arguments.lesson.isEmpty()) {
    window->lessons()->start(arguments.lesson, LessonActions::Ask::never);
    return finishOnce([window] { return window->lessons()->guide()->passStep(); }, window, path);
  }
  const qint64 steps = arguments.after_steps.value_or(kScreenshotSteps);
  const auto ready = [window, steps] {
    const LiveStatus status = window->session()->live()->status();
    if (!status.error.empty()) quitWith(QString::fromStdString(status.error));
    return status.error.empty() && status.step >= steps;
  };
  QObject::connect(window->session(), &RunSession::opened, window, [=] { finishOnce(ready, window, path); });
  window->runControl()->setUntil(steps);
  window->runControl()->startAll(arguments.configs, RunControl::Start::running);
}

void takeExport(MainWindow* window, const Arguments& arguments) {
  QObject::connect(window, &MainWindow::failed, window, quitWith);
  quitWhereAsked(window);
  if (arguments.export_request.panel == "list") {
    std::fputs(printable_lines(panelNames(*window->workspaces()).toStdString()).c_str(), stdout);
    QTimer::singleShot(0, window, [] { quitWith({}); });
    return;
  }
  QObject::connect(window->session(), &RunSession::opened, window,
                   [window, arguments] { exportOpened(window, arguments); });
  window->files()->open(arguments.files);
}

}  // namespace moescope
