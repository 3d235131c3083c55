#include "app/actions/file_actions.h"

#include <QApplication>
#include <QCheckBox>
#include <QClipboard>
#include <QDir>
#include <QFileDialog>
#include <QFileInfo>
#include <QInputDialog>
#include <QMenu>
#include <QMessageBox>
#include <QPushButton>
#include <QStandardPaths>
#include <algorithm>

#include "app/actions/close_question.h"
#include "app/actions/run_control.h"
#include "app/session/progress_job.h"
#include "app/session/run_session.h"
#include "app/session/settings.h"
#include "app/setup/open_dialogs.h"
#include "app/setup/setup_form.h"
#include "app/workspaces/compare_workspace.h"
#include "app/workspaces/workspace_tabs.h"
#include "app/workspaces/workspaces.h"
#include "core/checkpoints/text_sources.h"
#include "core/checkpoints/training_start.h"
#include "core/config/config_toml.h"
#include "core/files/assets.h"
#include "core/files/whole_file.h"
#include "core/frame/frame.h"
#include "core/logs/file_kind.h"
#include "core/logs/runs_in_folder.h"
#include "core/training/engine/lock_step.h"
#include "widgets/compare/verdict_strip.h"
#include "widgets/microscaling/tensor_lab.h"
#include "widgets/selection/compared_runs.h"
#include "widgets/selection/selection.h"

namespace moescope {
std::optional<SharedSetup> sharedSetup(const RunSession& session, const Selection& selection,
                                       const WorkspaceTabs& workspaces) {
  if (!session.hasConfig() || session.histories().empty()) return std::nullopt;
  SharedSetup setup;
  setup.configs = session.configs();
  setup.workspace = workspaces.current()->name().toLower().toStdString();
  setup.run = selection.run();
  setup.layer = selection.layer();
  setup.expert = selection.expert();
  setup.step = selection.range().empty() ? -1 : selection.step();
  return setup;
}

SetupLinks::SetupLinks(const Context& context, RunControl* control) : Actions(context), control_(control) {
  connect(session_, &RunSession::opened, this, &SetupLinks::showOpened, Qt::QueuedConnection);
  connect(session_, &RunSession::failed, this, [this] { opening_setup_.reset(); });
  connect(session_, &RunSession::openingStarted, this, [this] {
    opening_setup_.reset();
    began_ = true;
  });
}

void SetupLinks::addActionsTo(QMenu* menu) {
  menu->addAction("Copy &set-up as a link", QKeySequence("Ctrl+Shift+C"), this, &SetupLinks::copy)
      ->setWhatsThis(
          "Copy the set-up as a link: the settings of the open runs, the workspace, layer, expert and step as a short "
          "text, moescope:..., which opens them again when it is pasted or dropped into a window");
  menu->addAction("&Paste set-up", QKeySequence("Ctrl+Shift+V"), this, &SetupLinks::paste)
      ->setWhatsThis("Train the runs of a copied set-up (moescope:...) up to its step");
}

void SetupLinks::copy() {
  const auto setup = sharedSetup(*session_, *selection_, *workspaces_);
  if (!setup) return messages_->warn("There is no set-up to copy: a log does not contain all settings of its run.");
  const QString link = QString::fromStdString(setup_link(*setup));
  if (link.isEmpty())
    return messages_->warn(
        "There is no set-up to copy: these runs cannot train side by side, since they read different batches.");
  QApplication::clipboard()->setText(link);
  const RunConfig& first = setup->configs.front();
  QString outside;
  if (!first.data.path.empty()) outside += "; the text that it trains on is not in it, only its path";
  if (!first.model.initial_weights.empty())
    outside += "; the weights that it begins with are not in it, only their path";
  messages_->say(QString("Copied the set-up, %1 characters: paste or drop it into another window%2")
                     .arg(QString::number(link.size()), outside),
                 8000);
}

void SetupLinks::paste() {
  const QString text = QApplication::clipboard()->text();
  if (!is_setup_link(text.left(1000).toStdString()))
    return messages_->warn("The clipboard contains no set-up: the text of a set-up begins with moescope:");
  open(text);
}

void SetupLinks::open(const QString& link) {
  messages_->warnOfErrors([&] {
    const SharedSetup setup = read_setup_link(link.toStdString());
    began_ = false;
    control_->startAll(setup.configs, setup.step < 0 ? RunControl::Start::running : RunControl::Start::paused);
    if (began_) opening_setup_ = setup;  // if not, the set-up was refused, or its runs train in groups
  });
}

void SetupLinks::showOpened() {
  if (!opening_setup_ || session_->opening() || !session_->isLive())
    return;  // while a run is being opened, this signal belongs to the previous run
  const SharedSetup setup = *std::exchange(opening_setup_, std::nullopt);
  workspaces_->bringUp(QString::fromStdString(setup.workspace));
  if (setup.run >= 0 && setup.run < to_int(selection_->histories().size())) selection_->setRun(setup.run);
  const RunInfo& info = selection_->history()->info();
  if (std::ranges::find(info.moe_layers, setup.layer) != info.moe_layers.end()) selection_->showLayer(setup.layer);
  if (setup.expert >= 0 && setup.expert < info.n_experts) selection_->setExpert(setup.expert);
  if (setup.step >= 0) control_->runUntil(setup.step + 1);
}

namespace {

QString fileNames(const QStringList& paths) {
  QStringList names;
  for (const QString& path : paths) names << QFileInfo(path).fileName();
  return listed(names);
}

}  // namespace

FileActions::FileActions(const Context& context, RunControl* control, SetupForm* form)
    : Actions(context), recent_(new QMenu("&Recent files", workspaces_)), control_(control), form_(form) {
  recent_->setProperty("fills_itself", true);
  connect(recent_, &QMenu::aboutToShow, this, [this] { fillRecentFiles(recent_); });
  connect(form_, &SetupForm::openConfigRequested, this, &FileActions::askOpenConfig);
  connect(form_, &SetupForm::presetRequested, form_,
          [form](const QString& name) { form->setDraft(load_preset(name.toStdString()).config); });
  connect(session_, &RunSession::tooManyRuns, this, &FileActions::askWhichRun);
  connect(workspaces_->compare()->strip(), &VerdictStrip::runWanted, this, [this] {
    if (!session_->isLive()) askAddLog();
  });
  connect(session_, &RunSession::opened, this, [this] {
    const bool is_live = session_->isLive();
    if (!session_->readsStandardInput())
      for (const QString& path : is_live ? QStringList{session_->path()} : session_->paths())
        if (!path.isEmpty()) rememberRecentFile(path);
    if (is_live) return;
    const auto& histories = session_->histories();
    if (histories.size() > 1 &&
        (session_->paths().size() > 1 || run_origin(histories.front()->info()) == RunOrigin::checkpoint))
      workspaces_->bringUp(workspaces_->compare());
    const bool is_single = session_->histories().size() == 1;  // nothing to compare
    if (is_single && workspaces_->current() == workspaces_->compare()) workspaces_->bringUp(workspaces_->overview());
  });
}

void FileActions::addOpenActionTo(QMenu* menu) {
  menu->addAction("&Open...", QKeySequence::Open, this, [this] { askOpen({}); })
      ->setWhatsThis("Open a file or folder: recording, log, checkpoint, config, lesson, tensors");
  menu->addAction("&Add a log...", QKeySequence("Ctrl+Shift+O"), this, &FileActions::askAddLog)
      ->setWhatsThis("Add a log: compare another log or recording with the open one");
}

void FileActions::addSaveActionsTo(QMenu* menu) {
  menu->addAction("&Save config as...", QKeySequence::Save, this, &FileActions::askSaveConfig);
  menu->addMenu(recent_);
}

void FileActions::open(const QStringList& paths) {
  if (paths.isEmpty()) return;
  if (paths.size() == 1 && is_setup_link(paths.front().toStdString())) return emit setupOpened(paths.front());
  if (paths.size() <= 2 && std::ranges::all_of(paths, isCheckpoint))
    return askCheckpointTexts(checkpointFolder(paths.back()),
                              paths.size() == 2 ? checkpointFolder(paths.front()) : QString());
  messages_->warnOfErrors([&] {
    std::vector<FileKind> kinds;
    for (const QString& path : paths) kinds.push_back(file_kind(path.toStdString()));
    if (std::ranges::all_of(kinds, holds_runs))
      return askToCloseTraining(*session_, *selection_, messages_->window(), [this, paths] { session_->open(paths); });
    if (paths.size() == 1) return openOther(paths.front());
    QStringList lines{
        "Only files with runs can be opened together: recordings, logs, tables, event files. The chosen files are:"};
    for (qsizetype i = 0; i < paths.size(); ++i)
      lines << QString("%1: %2").arg(QFileInfo(paths[i]).fileName(), QString(file_kind_name(kinds[i])));
    messages_->warn(lines.join('\n'));
  });
}

void FileActions::add(const QStringList& paths, bool follow) {
  if (session_->histories().size() + paths.size() > kMaxRuns)
    return messages_->warn(QString("At most %1 runs can be open together.").arg(kMaxRuns));
  messages_->warnOfErrors([&] {
    for (const QString& path : paths)
      if (const FileKind kind = file_kind(path.toStdString()); !holds_runs(kind))
        return messages_->warn(QString::fromStdString(no_runs_in(path.toStdString(), kind)));
    session_->add(paths, !follow);
    if (session_->isFollowing()) workspaces_->bringUp(workspaces_->compare());
  });
}

void FileActions::askAddLog() {
  if (!session_->showsLog())
    return messages_->warn("A log is added beside an open log or recording: open one of them first.");
  auto* dialog = new OpenDialog({}, messages_->window());
  dialog->setWindowTitle("Add a log or recording");
  const QFileInfo opened(session_->path());
  if (opened.exists()) dialog->setDirectory(opened.absolutePath());
  dialog->follow()->setChecked(!session_->isSnapshot());
  dialog->follow()->setDisabled(session_->isFollowing());
  dialog->follow()->setToolTip("Applies to the open logs, too");
  connect(dialog, &OpenDialog::chosen, this, &FileActions::add);
  dialog->open();
}

void FileActions::openDropped(const QStringList& paths) {
  const bool can_add =
      session_->showsLog() && session_->histories().size() < kMaxRuns && std::ranges::all_of(paths, [](auto& path) {
        try {
          return holds_runs(file_kind(path.toStdString()));
        } catch (const std::runtime_error&) {
          return false;  // open() says why it cannot be read
        }
      });
  if (!can_add) return open(paths);
  auto* box = new QMessageBox(QMessageBox::Question, "MoEScope",
                              QString("Compare %1 with the open runs, or open it alone?").arg(fileNames(paths)),
                              QMessageBox::Cancel, messages_->window());
  box->setObjectName("dropped_log");
  box->setAttribute(Qt::WA_DeleteOnClose);
  QPushButton* compare_button = box->addButton("Compare", QMessageBox::AcceptRole);
  QPushButton* open_button = box->addButton("Open alone", QMessageBox::AcceptRole);
  box->setDefaultButton(compare_button);
  connect(compare_button, &QPushButton::clicked, this, [this, paths] { add(paths, !session_->isSnapshot()); });
  connect(open_button, &QPushButton::clicked, this, [this, paths] { open(paths); });
  box->open();
}

void FileActions::openOther(const QString& path) {
  const FileKind kind = file_kind(path.toStdString());
  if (kind == FileKind::lesson) return emit lessonOpened(path);
  if (kind == FileKind::queue) return emit queueOpened(path);
  if (kind == FileKind::config) return startConfig(path);
  if (offerRuns(path)) return;  // tensors may be the weights of a trainer whose logs are in the same folder
  if (kind == FileKind::tensors) return openTensors(path);
  if (kind == FileKind::unread) return messages_->warn(QString::fromStdString(no_log_text(path.toStdString(), kind)));
  askTrainOn(path);
}

std::optional<CheckpointTexts> FileActions::openCheckpoint() const {
  if (session_->isLive() || session_->histories().empty()) return std::nullopt;
  const History& history = *session_->histories().front();
  if (run_origin(history.info()) != RunOrigin::checkpoint) return std::nullopt;
  CheckpointTexts open{QString::fromStdString(history.info().source), {}, {}};
  if (const auto sources = text_sources_in(history.settings_at_start()->log())) {
    for (const std::string& path : sources->texts) open.files << QString::fromStdString(path);
    open.prompt = QString::fromStdString(sources->prompt);
  }
  return open;
}

void FileActions::askCheckpointTexts(const QString& folder, const QString& reference) {
  const bool has_log = !runs_in_folder(folder.toStdString()).empty();
  auto* dialog = new CheckpointDialog(folder, has_log, messages_->window());
  if (const auto open = openCheckpoint()) dialog->offerReference(*open);
  if (!reference.isEmpty()) dialog->setReference(reference);
  connect(dialog, &CheckpointDialog::chosen, this,
          [this](const CheckpointTexts& texts) { messages_->warnOfErrors([&] { runTexts(texts); }); });
  connect(dialog, &CheckpointDialog::trainingWanted, this,
          [this, folder] { messages_->warnOfErrors([&] { trainFrom(folder); }); });
  connect(dialog, &CheckpointDialog::tensorsWanted, this, [this, folder] { openTensors(folder); });
  connect(dialog, &CheckpointDialog::logWanted, this, [this, folder] { offerRuns(folder); });
  dialog->open();
  rememberRecentFile(folder);
}

// Fills the form with the settings, so that the text can be chosen before the start.
void FileActions::trainFrom(const QString& checkpoint) {
  form_->setDraft(run_from_checkpoint(checkpoint.toStdString()));
  emit formWanted();
  form_->showField(Setting(&DataConfig::path).key());
  messages_->say(QString("The set-up begins with the weights of %1: choose a text and a learning rate, then start it")
                     .arg(QDir(checkpoint).dirName()),
                 12000);
}

void FileActions::runTexts(const CheckpointTexts& texts) {
  QString name = QDir(texts.folder).dirName();
  if (!texts.reference.isEmpty() && QDir(texts.reference).dirName() != name)
    name = QDir(texts.reference).dirName() + "-and-" + name;
  const QString recording = newRecordingPath(name);
  auto* job =
      new ProgressJob("Running texts through " + name, messages_->window(),
                      [texts, recording](const auto& progress) { return runCheckpoint(texts, recording, progress); });
  job->setCancelButtonText("Stop and show");
  connect(job, &ProgressJob::workDone, this, [this, recording] {
    workspaces_->bringUp(workspaces_->overview());  // the result; two checkpoints open in Compare
    open({recording});
  });
  connect(job, &ProgressJob::failed, this, [this](const QString& problem) { messages_->warn(problem); });
}

bool FileActions::offerRuns(const QString& path) {
  if (!QFileInfo(path).isDir()) return false;
  const std::vector<RunFile> runs = runs_in_folder(path.toStdString());
  const std::vector<CheckpointFolder> models = checkpointsIn(path);
  if (runs.empty() && models.empty()) return false;
  auto* dialog = new FolderRunsDialog(path, runs, models, messages_->window());
  connect(dialog, &FolderRunsDialog::chosen, this, &FileActions::open);
  connect(dialog, &FolderRunsDialog::textWanted, this, [this, path] { trainOn(path); });
  dialog->open();
  emit askedWhichRuns(path);
  return true;
}

void FileActions::askTrainOn(const QString& path) {
  const QString what = QFileInfo(path).isDir() ? "This folder holds no log" : "This is no log";
  auto* box = new QMessageBox(QMessageBox::Question, "MoEScope",
                              QString("%1 that MoEScope knows. Train on it as text?\n\n%2").arg(what, path),
                              QMessageBox::Cancel, messages_->window());
  box->setObjectName("unknown_text");
  box->setAttribute(Qt::WA_DeleteOnClose);
  box->setTextInteractionFlags(Qt::TextSelectableByMouse);
  box->addButton("Train on it", QMessageBox::AcceptRole)->setObjectName("train_on_text");
  box->setDefaultButton(QMessageBox::Cancel);
  connect(box, &QMessageBox::buttonClicked, this, [this, box, path](QAbstractButton* button) {
    if (box->buttonRole(button) == QMessageBox::AcceptRole) messages_->warnOfErrors([&] { trainOn(path); });
  });
  box->open();
  emit askedToTrainOn(path);
}

void FileActions::askWhichRun(const QString& path, const QStringList& names) {
  auto* dialog = new QInputDialog(messages_->window());
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  dialog->setObjectName("which_run");
  dialog->setWindowTitle(QString("Runs in %1").arg(QFileInfo(path).fileName()));
  dialog->setLabelText(QString("Which of its %1 runs?").arg(names.size()));
  dialog->setComboBoxItems(names);
  dialog->setOkButtonText("&Open");
  connect(dialog, &QInputDialog::textValueSelected, this,
          [this, path](const QString& name) { session_->open({path}, {name}); });
  dialog->open();
  emit askedWhichRuns(path);
}

void FileActions::trainOn(const QString& path) {
  RunConfig config = session_->hasConfig() ? session_->config() : form_->draft();
  config.data.path = path.toStdString();
  askToCloseTraining(
      *session_, *selection_, messages_->window(), [this, config] { control_->start(config); }, true);
}

void FileActions::openTensors(const QString& path) {
  workspaces_->bringUp(workspaces_->microscaling());
  workspaces_->microscaling()->showTensors();
  workspaces_->microscaling()->tensorLab()->openFile(path);
}

// Writes a built-in log of assets/samples to a file and opens it like any other file.
void FileActions::openSample(const QString& name) {
  messages_->warnOfErrors([&] {
    QString folder = QStandardPaths::writableLocation(QStandardPaths::CacheLocation) + "/samples";
    if (!QDir().mkpath(folder)) folder = QDir::tempPath() + "/moescope-samples";  // the home cannot be written
    QDir().mkpath(folder);
    const QString path = folder + '/' + name;
    write_whole_file(path.toStdString(), asset("samples/" + name.toStdString()));
    open({path});
  });
}

void FileActions::startConfig(const QString& path) {
  if (!loadConfigIntoForm(path)) return;
  const ParsedConfig parsed = load_config(path.toStdString());
  askToCloseTraining(
      *session_, *selection_, messages_->window(), [this, parsed] { control_->startAll(parsed); }, true);
}

bool FileActions::loadConfigIntoForm(const QString& path) {
  const ParsedConfig parsed = load_config(path.toStdString());
  if (!parsed.problems.empty()) {
    messages_->warn(linesOf(parsed.problems));
    return false;
  }
  rememberRecentFile(path);
  form_->setDraft(parsed.config);
  return true;
}

void FileActions::askOpen(const QString& kind) {
  auto* dialog = new OpenDialog(kind, messages_->window());
  connect(dialog, &OpenDialog::chosen, this,
          [this](const QStringList& paths, bool follow) { follow ? open(paths) : openSnapshot(paths); });
  dialog->open();
}

void FileActions::askOpenCheckpoint() {
  const QString folder = QFileDialog::getExistingDirectory(messages_->window(), "Open a checkpoint");
  if (!folder.isEmpty()) open({folder});
}

// Opens a snapshot of the runs in the files. Files without runs are opened as usual, since they never get new steps.
void FileActions::openSnapshot(const QStringList& paths) {
  const bool runs =
      std::ranges::all_of(paths, [](const QString& path) { return holds_runs(file_kind(path.toStdString())); });
  if (!runs) return open(paths);
  askToCloseTraining(*session_, *selection_, messages_->window(),
                     [this, paths] { messages_->warnOfErrors([&] { session_->open(paths, {}, true); }); });
}

void FileActions::askOpenConfig() {
  const QString path =
      QFileDialog::getOpenFileName(messages_->window(), "Open config", QString(), "Run configs (*.toml)");
  if (path.isEmpty()) return;
  loadConfigIntoForm(path);
  emit formWanted();
}

void FileActions::askSaveConfig() {
  const RunConfig config = session_->isLive() ? session_->config() : form_->draft();
  messages_->saveAs("Save config", QString::fromStdString(config.name) + ".toml", "Run configs (*.toml)",
                    [&](const QString& path) { write_whole_file(path.toStdString(), to_toml(config)); });
}

void FileActions::fillRecentFiles(QMenu* menu) {
  menu->clear();
  for (const QString& path : recentFiles()) menu->addAction(path, this, [this, path] { openRecent(path); });
  if (menu->isEmpty()) menu->addAction("none yet")->setEnabled(false);
}

void FileActions::openRecent(const QString& path) {
  if (QFileInfo::exists(path)) return open({path});
  forgetRecentFile(path);
  messages_->say(path + " does not exist any more and was removed from the list", 8000);
}

}  // namespace moescope
