#include "app/export/export_request.h"

#include <QApplication>
#include <QDockWidget>
#include <QFileInfo>
#include <QTimer>
#include <cstdio>
#include <stdexcept>

#include "app/export/report.h"
#include "app/export/screenshot.h"
#include "app/window/arguments.h"
#include "app/window/main_window.h"
#include "app/workspaces/compare_workspace.h"
#include "app/workspaces/overview.h"
#include "app/workspaces/picture.h"
#include "core/io/text_escape.h"
#include "core/io/whole_file.h"

namespace moescope {

namespace {

const QStringList kForms = {"png", "svg", "csv", "html"};

QString panelNames(const MainWindow& window) {
  QString text;
  for (const Workspace* workspace : window.workspaces())
    for (const Panel* panel : workspace->panels()) text += workspace->name().toLower() + ": " + panel->title() + "\n";
  return text;
}

struct Place {
  Workspace* workspace = nullptr;
  Panel* panel = nullptr;
};

// In the workspace that was asked for, or in the first that has it.
Place findPanel(const MainWindow& window, const QString& name, const QString& in_workspace) {
  for (Workspace* workspace : window.workspaces()) {
    if (!in_workspace.isEmpty() && !sameName(workspace->name(), in_workspace)) continue;
    for (Panel* panel : workspace->panels())
      if (sameName(panel->title(), name)) return {workspace, panel};
  }
  throw std::runtime_error(
      ("--panel: there is no \"" + name + "\"; the panels are\n" + panelNames(window)).toStdString());
}

void bringToFront(MainWindow* window, Workspace* workspace, Panel* panel) {
  window->showWorkspace(workspace->name());
  for (QDockWidget* dock : workspace->docks())
    if (panel && dock->isAncestorOf(panel)) {
      dock->show();
      dock->raise();
    }
}

void write(MainWindow* window, const ExportRequest& request, QSize size, Panel* panel) {
  if (request.to == "html")
    write_whole_file(request.out.toStdString(), report(reportSource(window)).toStdString());
  else if (request.to == "csv")
    write_whole_file(request.out.toStdString(), panel->csv().toStdString());
  else if (panel)
    savePanelFigure(panel, *window->selection(), request.out, request.to, size);
  else
    saveWorkspaceFigure(window->workspace(), *window->selection(), request.out, request.to);
}

void exportOpened(MainWindow* window, const Arguments& arguments) {
  const ExportRequest request = arguments.export_request;
  guardedQuit([&] {
    Place place{window->workspace(), nullptr};
    if (!request.panel.isEmpty()) place = findPanel(*window, request.panel, arguments.workspace);
    bringToFront(window, place.workspace, place.panel);
    if (request.step) window->selection()->setStep(*request.step);
    whenPanelsAreReady(window, [window, request, size = arguments.size, panel = place.panel] {
      if (guardedQuit([&] { write(window, request, size, panel); })) quitWith({});
    });
  });
}

}  // namespace

bool sameName(const QString& a, const QString& b) {
  const auto plain = [](QString text) { return text.remove(' ').remove('-').remove('_').toLower(); };
  return plain(a) == plain(b);
}

ReportSource reportSource(MainWindow* window) {
  ReportSource source;
  source.selection = window->selection();
  source.compared = window->comparedRuns();
  const RunSession* session = window->session();
  if (session->hasConfig())
    for (int place = 0; place < static_cast<int>(session->histories().size()); ++place)
      source.configs.push_back(session->config(place));
  source.file = QFileInfo(session->path()).fileName();
  struct Wanted {
    const char* dock;
    const char* words;
  };
  const auto take = [](const Workspace* workspace, std::initializer_list<Wanted> list, QList<ReportPicture>& into) {
    for (const Wanted& wanted : list)
      if (Panel* panel = workspace->panel(wanted.dock)) into.append({panel, wanted.words});
  };
  constexpr Wanted kLoss{
      "dock_loss", "Cross-entropy over steps: the faint line is every step, the strong one smoothed. Lower is better."};
  if (session->histories().size() > 1)
    take(window->compareWorkspace(),
         {{"dock_compare_loss", kLoss.words},
          {"dock_compare_gap",
           "Loss of each run minus that of run A. Grey is the band expected by chance: a line inside it is no evidence "
           "of a difference. Dashed: the first step at which losses differ by more than the panel's threshold."},
          {"dock_compare_load_difference",
           "How much more (orange) or less (blue) load each expert has than in run A at this step, in fair shares."},
          {"dock_compare_flips",
           "Share of tokens that the router sends to another set of experts than run A does at the same step."},
          {"dock_compare_gradient",
           "The run's gradient against that of an FP32 pass with the same weights and batch: how much the number "
           "formats change it."}},
         source.of_all);
  else
    take(window->overview(), {kLoss}, source.of_all);
  take(window->overview(),
       {{"dock_expert_load", "Load of every expert at this step, in fair shares: 1 is even, 0 is dead."},
        {"dock_load_over_time",
         "Load of the experts of one layer over steps: a lasting stripe is an expert that is always preferred."},
        {"dock_balance",
         "MaxVio, the fullest expert's load over the fair share minus 1: 0 is perfectly even. One batch (orange) "
         "always varies; the window (blue) shows what lasts."},
        {"dock_quant_error", "Signal to quantization noise of the operands of the GEMMs, in dB: higher is better."},
        {"dock_scale_histogram",
         "Blocks by their scale (a power of two) over the steps: drift shows values that grow or "
         "shrink."},
        {"dock_all_to_all",
         "Bytes from rank to rank of one layer's dispatch: a bright column is a rank that receives more than the "
         "others, which wait for it."}},
       source.of_each);
  return source;
}

void addExportOptions(QCommandLineParser& parser) {
  parser.addOption({"export", "Write what a panel or a workspace shows of FILE and quit; needs no display.", "OUT"});
  parser.addOption({"to", "Form of --export: " + kForms.join(", ") + " (default: by OUT's suffix).", "FORM"});
  parser.addOption({"panel", "Panel for --export by its title; list: prints the titles.", "NAME"});
  parser.addOption({"step", "Step that --export shows (default: the newest).", "N"});
}

ExportRequest readExport(const QCommandLineParser& parser, QStringList& problems) {
  ExportRequest request;
  for (const char* option : {"to", "panel", "step"})
    if (parser.isSet(option) && !parser.isSet("export")) problems << QString("--%1 goes with --export").arg(option);
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
    problems << "--export does not go with --screenshot or --lesson";
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
  if (arguments.export_request.panel == "list") {
    std::fputs(printable_lines(panelNames(*window).toStdString()).c_str(), stdout);
    QTimer::singleShot(0, window, [] { quitWith({}); });
    return;
  }
  QObject::connect(window->session(), &RunSession::opened, window,
                   [window, arguments] { exportOpened(window, arguments); });
  window->openFiles(arguments.files);
}

}  // namespace moescope
