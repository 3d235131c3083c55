#include "app/program/arguments.h"

#include <QCommandLineParser>
#include <QFileInfo>
#include <QRegularExpression>
#include <QUrl>
#include <algorithm>
#include <array>

#include "app/session/settings.h"
#include "core/config/config_check.h"
#include "core/config/config_toml.h"
#include "core/config/setup_link.h"
#include "core/files/output_guard.h"
#include "core/files/text/words.h"
#include "core/lessons/lesson.h"
#include "core/logs/file_kind.h"
#include "core/logs/standard_input.h"
#include "core/numerics/matrix_units.h"
#include "core/training/engine/lock_step.h"

namespace moescope {

namespace {

const QStringList kForms = {"png", "svg", "csv", "html"};

// Names of the workspaces in the order of the tabs.
QStringList workspaceNames() {
  return {"overview", "router", "all-to-all", "microscaling", "compare", "cluster", "text"};
}

QString presetList() {
  return QString::fromStdString(joined(preset_names(), ", ") +
                                "; several runs side by side: " + joined(comparison_preset_names(), ", "));
}

QString description() {
  return QString(
             "Trains a small mixture-of-experts language model and shows live what router, all-to-all and number "
             "formats do.\nWithout arguments it begins with a page that offers a lesson, files to open, a comparison "
             "and a training. Every run of the window is recorded in %1;\nthe newest %2 recordings are kept there, at "
             "most %3 GB together; older ones are removed (move what you want to keep).")
      .arg(recordingsFolder())
      .arg(kKeptRecordings)
      .arg(kKeptBytes / 1e9);
}

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

void addOptions(QCommandLineParser& parser) {
  parser.addPositionalArgument(
      "FILE",
      "Files to open: recordings, training logs (JSON lines, stdout of TorchTitan and Megatron-LM, trainer_state.json, "
      "TensorBoard, W&B, ...); several are runs A, B, ... side by side. Also tensors, a config, a lesson.",
      "[FILE...]");
  parser.addOption({"preset", "Train this preset: " + presetList() + ".", "NAME"});
  parser.addOption({"config", "Train with the settings of this TOML file.", "FILE.toml"});
  parser.addOption({"setup",
                    "Train the runs of a copied set-up (Edit > Copy set-up as a link) up to its step. The text may "
                    "also be given without --setup, as a desktop does when it opens such a link.",
                    "moescope:..."});
  parser.addOption({"data", "Train on this text file or folder of text files.", "PATH"});
  parser.addOption(
      {"lesson",
       "Begin a guided lesson: " + QString::fromStdString(joined(lesson_names(), ", ")) +
           ", its number, a lesson file, or a fault: " + QString::fromStdString(joined(exhibit_names(), ", ")) +
           ". With --screenshot: its first step, after its run.",
       "NAME"});
  parser.addOption(
      {"follow",
       "Follow a log that another program writes: JSON lines, which may not exist yet, or anything else that can be "
       "opened, for example a folder of event files or router traces; - is standard input. Given twice: runs A and "
       "B.",
       "LOG"});
  parser.addOption({"screenshot", "Save a picture of the whole window and quit; needs no display.", "OUT.png"});
  addExportOptions(parser);
  parser.addOption({"overwrite", "Replace an existing file with --export or --screenshot."});
  parser.addOption({"after-steps", "Steps to train before the screenshot (default 100).", "N"});
  parser.addOption({"size", "Size of the window, 1280x800 for example.", "WxH"});
  parser.addOption({"theme", "dark or light.", "NAME"});
  parser.addOption({"projector", "Begin in the projector view (F5): larger type, fewer panels."});
  parser.addOption({"matrix-units",
                    "Matrix units for BF16 and quantized operands: auto, amx, avx512_bf16 or off (OpenBLAS); by "
                    "default the value of MOESCOPE_MATRIX_UNITS, else auto.",
                    "NAME"});
  parser.addOption({"workspace", workspaceNames().join(", ") + ".", "NAME"});
}

void addProblems(Arguments& result, const std::vector<ConfigProblem>& problems) {
  for (const ConfigProblem& problem : problems) result.problems << QString::fromStdString(problem.text());
}

void readConfig(const QCommandLineParser& parser, Arguments& result) {
  if (parser.isSet("preset") && parser.isSet("config")) result.problems << "--preset and --config: give one of them";
  const std::string preset = parser.isSet("preset") ? parser.value("preset").toStdString() : "small";
  const ParsedConfig parsed =
      parser.isSet("config") ? load_config(parser.value("config").toStdString()) : load_preset(preset);
  addProblems(result, parsed.problems);
  result.configs = all_runs(parsed);
  if (!parser.isSet("data")) return;
  for (RunConfig& config : result.configs) config.data.path = parser.value("data").toStdString();
  if (!QFileInfo::exists(parser.value("data")))
    result.problems
        << QString("--data: %1 does not exist; give a text file or a folder of text files").arg(parser.value("data"));
}

// Returns why a file cannot be opened, for text of unknown kind and forms that are not read; "" for all others. The
// window handles folders and unreadable files.
QString problemOfUnknown(const QString& file) {
  try {
    if (QFileInfo(file).isDir()) return {};
    const FileKind kind = file_kind(file.toStdString());
    const bool unknown = kind == FileKind::text || kind == FileKind::unread;
    return unknown ? QString::fromStdString(no_log_text(file.toStdString(), kind)) : QString();
  } catch (const std::runtime_error&) {
    return {};
  }
}

void readFiles(const QCommandLineParser& parser, Arguments& result) {
  result.files = parser.positionalArguments();
  if (result.files.size() == 1 && is_setup_link(result.files.front().toStdString())) {
    result.setup = result.files.takeFirst();
    return;
  }
  for (QString& file : result.files)  // a desktop may pass a file as a URL
    if (file.startsWith("file://")) file = QUrl(file).toLocalFile();
  for (const QString& file : result.files)
    if (file == kStandardInput)
      result.problems << "-: give --follow - to show standard input";
    else if (!QFileInfo::exists(file))
      result.problems << file + ": no such file";
    else if (const QString problem = problemOfUnknown(file); !problem.isEmpty())
      result.problems << problem;
  for (const char* option : {"preset", "config", "data", "after-steps"})
    if (parser.isSet(option))
      result.problems << QString("--%1 is for training: it cannot be used with a file to open (%2)")
                             .arg(option, result.files.first());
}

void readSetup(const QCommandLineParser& parser, Arguments& result) {
  if (result.setup.isEmpty()) return;
  // Only --setup is checked here. The window shows the errors of a clicked link, since its user does not see standard
  // error.
  try {
    if (parser.isSet("setup")) read_setup_link(result.setup.toStdString());
  } catch (const std::runtime_error& error) {
    result.problems << QString("--setup: ") + error.what();
  }
  for (const char* option : {"preset", "config", "data", "after-steps", "lesson", "follow", "screenshot", "export"})
    if (parser.isSet(option)) result.problems << QString("--%1 cannot be used with --setup").arg(option);
  if (!result.files.isEmpty()) result.problems << "--setup cannot be used with a file to open";
}

void checkStandardInput(Arguments& result) {
  if (!result.follow.contains(kStandardInput)) return;
  if (result.follow.count(kStandardInput) > 1)
    result.problems << "--follow: - (standard input) is named twice, but can be read only once";
  try {
    require_standard_input();
  } catch (const std::runtime_error& error) {
    result.problems << QString("--follow: ") + error.what();
  }
}

void readFollow(const QCommandLineParser& parser, Arguments& result) {
  result.follow = parser.values("follow");
  if (result.follow.isEmpty()) return;
  checkStandardInput(result);
  if (!result.files.isEmpty()) result.problems << "--follow cannot be used with a file to open; give --follow twice";
  if (result.follow.size() > kMaxRuns)
    result.problems << QString("--follow: %1 logs given; at most %2 can be open side by side")
                           .arg(result.follow.size())
                           .arg(kMaxRuns);
  for (const char* option : {"preset", "config", "data", "lesson"})
    if (parser.isSet(option)) result.problems << QString("--%1 cannot be used with --follow").arg(option);
}

void readLesson(const QCommandLineParser& parser, Arguments& result) {
  if (!parser.isSet("lesson")) return;
  result.lesson = parser.value("lesson");
  addProblems(result, find_lesson(result.lesson.toStdString()).problems);
  if (!result.files.isEmpty()) result.problems << "--lesson cannot be used with a file to open";
}

void readSteps(const QCommandLineParser& parser, Arguments& result) {
  if (!parser.isSet("after-steps")) return;
  bool ok = false;
  const qint64 steps = parser.value("after-steps").toLongLong(&ok);
  if (!ok || steps < 1)
    result.problems
        << QString("--after-steps: \"%1\" is not a number of steps; give 1 or more").arg(parser.value("after-steps"));
  if (!parser.isSet("screenshot")) result.problems << "--after-steps needs --screenshot";
  result.after_steps = steps;
}

void readMatrixUnits(const QCommandLineParser& parser, Arguments& result) {
  if (!parser.isSet("matrix-units")) return;
  const std::string problem = choose_matrix_unit(parser.value("matrix-units").toStdString());
  if (!problem.empty()) result.problems << "--matrix-units: " + QString::fromStdString(problem);
}

void readLooks(const QCommandLineParser& parser, Arguments& result) {
  if (parser.isSet("size")) {
    static const QRegularExpression pattern("^(\\d{3,5})x(\\d{3,5})$");
    const auto match = pattern.match(parser.value("size"));
    result.size = QSize(match.captured(1).toInt(), match.captured(2).toInt());
    if (!match.hasMatch() || result.size.width() > 16384 || result.size.height() > 16384)
      result.problems << QString("--size: \"%1\" is not WIDTHxHEIGHT; give for example 1280x800, at most 16384x16384")
                             .arg(parser.value("size"));
  }
  if (!parser.isSet("theme")) return;
  result.theme = themeNamed(parser.value("theme"));
  if (!result.theme)
    result.problems << QString("--theme: \"%1\" is not a theme; give dark or light").arg(parser.value("theme"));
}

// Refuses outputs that would replace an input file or, without --overwrite, an existing file.
void guardOutputs(const QCommandLineParser& parser, Arguments& result) {
  std::vector<std::string> inputs{parser.value("config").toStdString()};
  for (const QString& file : result.files + result.follow) inputs.push_back(file.toStdString());
  for (const RunConfig& config : result.configs)
    for (const std::string& input : input_paths(config)) inputs.push_back(input);
  const bool prints = result.export_request.panel == "list";
  const std::string exported = prints ? "" : result.export_request.out.toStdString();
  try {
    guard_outputs(inputs, {{"--screenshot", result.screenshot.toStdString()}, {"--export", exported}},
                  parser.isSet("overwrite"));
  } catch (const std::runtime_error& error) {
    result.problems << error.what();
  }
}

}  // namespace

Arguments parseArguments(const QStringList& arguments) {
  QCommandLineParser parser;
  parser.setApplicationDescription(description());
  const QCommandLineOption help = parser.addHelpOption();
  const QCommandLineOption version = parser.addVersionOption();
  addOptions(parser);
  Arguments result;
  if (const auto at = arguments.indexOf(QString()); at > 0) {  // as of a variable of the shell that is not set
    result.problems << QString("the argument behind %1 is empty").arg(arguments[at - 1]);
    return result;
  }
  if (!parser.parse(arguments)) {
    result.problems << parser.errorText() + " (moescope --help lists the options)";
    return result;
  }
  if (parser.isSet(help)) result.print = parser.helpText();
  if (parser.isSet(version)) result.print = QString("moescope %1\n").arg(QCoreApplication::applicationVersion());
  if (!result.print.isEmpty()) return result;
  result.setup = parser.value("setup");
  parser.positionalArguments().isEmpty() ? readConfig(parser, result) : readFiles(parser, result);
  readSetup(parser, result);
  readFollow(parser, result);
  readLesson(parser, result);
  const auto is_set = [&](const char* option) { return parser.isSet(option); };
  result.run_given = !result.files.isEmpty() || !result.setup.isEmpty() ||
                     std::ranges::any_of(std::array{"preset", "config", "data", "follow", "lesson"}, is_set);
  readSteps(parser, result);
  result.export_request = readExport(parser, result.problems);
  readMatrixUnits(parser, result);
  readLooks(parser, result);
  result.projector = parser.isSet("projector");
  result.workspace = parser.value("workspace").toLower();
  if (parser.isSet("workspace") && !workspaceNames().contains(result.workspace))
    result.problems << QString("--workspace: \"%1\" is not a workspace; give one of %2")
                           .arg(result.workspace, workspaceNames().join(", "));
  result.screenshot = parser.value("screenshot");
  guardOutputs(parser, result);
  return result;
}

}  // namespace moescope
