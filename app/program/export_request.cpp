#include "app/program/export_request.h"

#include <QApplication>
#include <QFileInfo>
#include <QTimer>
#include <cstdio>
#include <stdexcept>

#include "app/actions/file_actions.h"
#include "app/export/export_actions.h"
#include "app/program/arguments.h"
#include "app/program/screenshot.h"
#include "app/session/run_session.h"
#include "app/window/main_window.h"
#include "app/workspaces/picture.h"
#include "app/workspaces/workspace_tabs.h"
#include "core/files/text/text_escape.h"
#include "core/files/whole_file.h"

namespace moescope {

namespace {

const QStringList kForms = {"png", "svg", "csv", "html"};

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
    write_whole_file(request.out.toStdString(), panel->csv().toStdString());
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

void addExportOptions(QCommandLineParser& parser) {
  parser.addOption({"export", "Export a panel or a workspace of FILE and quit; needs no display.", "OUT"});
  parser.addOption({"to", "Format of --export: " + kForms.join(", ") + " (default: by OUT's suffix).", "FORM"});
  parser.addOption({"panel", "Panel for --export by its title; list: prints the titles.", "NAME"});
  parser.addOption({"step", "Step that --export shows (default: the newest).", "N"});
}

ExportRequest readExport(const QCommandLineParser& parser, QStringList& problems) {
  ExportRequest request;
  for (const char* option : {"to", "panel", "step"})
    if (parser.isSet(option) && !parser.isSet("export")) problems << QString("--%1 needs --export").arg(option);
  if (!parser.isSet("export")) return request;
  request.out = parser.value("export");
  request.to = parser.isSet("to") ? parser.value("to") : QFileInfo(request.out).suffix().toLower();
  request.panel = parser.value("panel");
  if (!kForms.contains(request.to))
    problems << QString("--export: \"%1\" is not a format for a picture, table or report; give one of %2")
                    .arg(request.to, kForms.join(", "));
  if (request.to == "csv" && request.panel.isEmpty()) problems << "--export to csv needs --panel NAME";
  if (parser.positionalArguments().isEmpty()) problems << "--export needs a FILE to open";
  if (parser.isSet("screenshot") || parser.isSet("lesson"))
    problems << "--export cannot be used with --screenshot or --lesson";
  if (parser.isSet("step")) {
    bool ok = false;
    request.step = parser.value("step").toLongLong(&ok);
    if (!ok || *request.step < 0)
      problems << QString("--step: \"%1\" is not a step; give 0 or more").arg(parser.value("step"));
  }
  return request;
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
