// Runs side by side and workspaces: what the window does about them.
#include <QStackedWidget>
#include <QStatusBar>
#include <QTabBar>
#include <QVBoxLayout>

#include "app/bars/live_bar.h"
#include "app/bars/notice_bar.h"
#include "app/bars/run_bar.h"
#include "app/bars/run_chips.h"
#include "app/bars/status_line.h"
#include "app/setup/compare_dialog.h"
#include "app/setup/setup_form.h"
#include "app/window/main_window.h"
#include "app/workspaces/all_to_all_workspace.h"
#include "app/workspaces/cluster_workspace.h"
#include "app/workspaces/compare_workspace.h"
#include "app/workspaces/microscaling_workspace.h"
#include "app/workspaces/overview.h"
#include "app/workspaces/router_workspace.h"
#include "app/workspaces/text_workspace.h"
#include "core/telemetry/logs/log_settings.h"
#include "widgets/compare/gradient_panel.h"
#include "widgets/microscaling/tensor_lab.h"

namespace moescope {

namespace {

QString settingsText(const std::vector<ConfigDifference>& differences) {
  QStringList texts;
  for (const ConfigDifference& found : differences) texts << QString::fromStdString(found.key + " " + found.b);
  return texts.join(", ");
}

QStringList otherFormats(const RunConfig& config) {
  const ConfigField* field = find_field("precision.experts");
  QStringList formats;
  for (const std::string& choice : field->choices)
    if (choice != to_string(field->get(config))) formats << QString::fromStdString(choice);
  return formats;
}

// What logs tell of their settings in their first lines.
std::vector<ComparedRun> comparedLogs(const std::vector<HistoryPtr>& histories) {
  std::vector<ComparedRun> compared;
  std::map<std::string, std::string> first;
  for (const HistoryPtr& history : histories) {
    const auto settings = log_settings(*history);
    ComparedRun run;
    if (compared.empty()) {
      first = settings;
    } else {
      for (const LogDifference& found : difference(first, settings))
        run.settings.push_back(
            {QString::fromStdString(found.key), QString::fromStdString(found.a), QString::fromStdString(found.b)});
      const auto until = same_settings_until(first, settings);
      run.noise_twin = until.has_value();
      if (until && *until < history->steps().last) run.twin_until = beginning_of(*history, *until);
    }
    compared.push_back(std::move(run));
  }
  return compared;
}

}  // namespace

void MainWindow::buildWorkspaces() {
  auto* central = new QWidget(this);
  notice_ = new NoticeBar(central);
  stack_ = new QStackedWidget(central);
  auto* column = new QVBoxLayout(central);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  column->addWidget(notice_);
  column->addWidget(stack_, 1);
  overview_ = new Overview(&selection_, &findings_, stack_);
  router_ = new RouterWorkspace(&selection_, &findings_, stack_);
  compare_ = new CompareWorkspace(&selection_, &compared_, stack_);
  microscaling_ = new MicroscalingWorkspace(&selection_, stack_);
  text_ = new TextWorkspace(&selection_, stack_);
  connect(text_, &TextWorkspace::probeWanted, this,
          [this](const QString& escaped) { requestChange("telemetry.probe", escaped.toStdString()); });
  all_to_all_ = new AllToAllWorkspace(&selection_, stack_);
  cluster_ = new ClusterWorkspace(&selection_, stack_);
  tabs_ = new QTabBar;
  tabs_->setDrawBase(false);
  tabs_->setExpanding(false);
  tabs_->setFocusPolicy(Qt::TabFocus);
  tabs_->setAccessibleName("Workspace");
  tabs_->setObjectName("workspace_tabs");
  for (Workspace* workspace : workspaces()) {
    stack_->addWidget(workspace);
    tabs_->setTabToolTip(tabs_->addTab(workspace->name()),
                         QString("Workspace %1 (Ctrl+%2)").arg(workspace->name()).arg(tabs_->count() + 1));
    connect(workspace, &Workspace::readoutChanged, this, &MainWindow::showReadout);
    connect(workspace, &Workspace::failed, this, &MainWindow::complain);
    connect(workspace, &Workspace::saved, this,
            [this](const QString& path) { statusBar()->showMessage("saved " + path, 5000); });
  }
  connect(tabs_, &QTabBar::currentChanged, stack_, &QStackedWidget::setCurrentIndex);
  connect(tabs_, &QTabBar::currentChanged, &clock_, &FrameClock::wake);
  setCentralWidget(central);
}

QList<Workspace*> MainWindow::workspaces() const {
  return {overview_, router_, all_to_all_, microscaling_, compare_, cluster_, text_};
}

Workspace* MainWindow::workspace() const {
  return workspaces()[tabs_->currentIndex()];
}

void MainWindow::showWorkspace(Workspace* workspace) {
  tabs_->setCurrentIndex(static_cast<int>(workspaces().indexOf(workspace)));
}

bool MainWindow::showWorkspace(const QString& name) {
  for (Workspace* workspace : workspaces()) {
    if (workspace->name().compare(name, Qt::CaseInsensitive) != 0) continue;
    showWorkspace(workspace);
    return true;
  }
  return false;
}

void MainWindow::openTensors(const QString& path) {
  showWorkspace(microscaling_);
  microscaling_->showTensorLab();
  microscaling_->tensorLab()->openFile(path);
}

// What is under the mouse or the keyboard's cursor; when that goes, other messages stay.
void MainWindow::showReadout(const QString& text) {
  if (text.isEmpty() && statusBar()->currentMessage() != readout_) return;
  readout_ = text;
  statusBar()->showMessage(text);
}

void MainWindow::connectComparison() {
  RunChips* chips = run_bar_->chips();
  connect(chips, &RunChips::activated, &selection_, &Selection::setRun);
  connect(chips, &RunChips::removeRequested, this, &MainWindow::removeRun);
  connect(chips, &RunChips::noiseTwinRequested, this, [this] { addRun(noise_twin(session_.config())); });
  connect(chips, &RunChips::formatTwinRequested, this,
          [this](const QString& format) { addTwinWith("precision.experts", format.toStdString()); });
  connect(chips, &RunChips::twinRequested, this, [this] { askForTwin({}); });
  connect(form_, &SetupForm::compareRequested, this, &MainWindow::askForTwin);
  connect(form_, &SetupForm::twinRequested, this, &MainWindow::addRun);
  connect(form_, &SetupForm::valueTwinRequested, this, &MainWindow::addTwinWith);
  connect(live_bar_, &LiveBar::twinRequested, this, &MainWindow::addTwinWith);
  connect(live_bar_, &LiveBar::compareRequested, this, &MainWindow::askForTwin);
  connect(compare_->gradientPanel(), &GradientPanel::cadenceRequested, this, &MainWindow::measureGradients);
  connect(&session_, &RunSession::runsChanged, this, &MainWindow::onRunsChanged);
  connect(&selection_, &Selection::focusChanged, this, [this] {
    if (selection_.run() != shown_run_) showConfigEverywhere();
  });
}

void MainWindow::askForTwin(const QString& key) {
  if (!session_.isLive()) return complain("Only beside a model in training can a twin be trained: start a run first.");
  auto* dialog = new CompareDialog(session_.config(), key, this);
  connect(dialog, &CompareDialog::twinRequested, this, &MainWindow::addRun);
  dialog->open();
}

void MainWindow::addRun(RunConfig twin) {
  if (session_.isLive()) twin.name = twin_name(session_.config(), twin);
  if (const QString refused = session_.addRun(twin); !refused.isEmpty()) return complain(refused);
  showWorkspace(compare_);
  clock_.wake();
}

void MainWindow::addTwinWith(const QString& key, const ConfigValue& value) {
  RunConfig twin = session_.config();
  find_field(key.toStdString())->set(twin, value);
  const auto problems = validate(twin);
  if (!problems.empty()) return complain(QString::fromStdString(problems.front().message));
  if (difference(session_.config(), twin).empty()) return complain("Run A has this value already: choose another one.");
  addRun(twin);
}

void MainWindow::removeRun(int place) {
  if (place <= 0 || place >= static_cast<int>(session_.histories().size())) return;
  if (const QString refused = session_.removeRun(place); !refused.isEmpty()) complain(refused);
  clock_.wake();
}

// Of all open runs, so that they can be compared; each as a step that can be undone would make one click four.
void MainWindow::measureGradients(int every) {
  for (int place = 0; place < static_cast<int>(session_.histories().size()); ++place) {
    const QString refused = session_.change(
        {.run = session_.runAt(place), .key = "telemetry.gradient_every", .value = std::int64_t{every}});
    if (!refused.isEmpty()) return complain(refused);
  }
  statusBar()->showMessage(QString("Gradients are compared with FP32 every %1 steps").arg(every), 5000);
  clock_.wake();
}

// The picture stays where the person looked.
void MainWindow::onRunsChanged() {
  const bool following = selection_.following();
  const std::int64_t step = selection_.step();
  const StepRange range = selection_.range();
  selection_.setHistories(session_.histories());
  if (!following) {
    selection_.setRange(range);
    selection_.setStep(step);
  }
  showConfigEverywhere();
  if (session_.isLive() || session_.isFollowing() || !session_.attachedTo().isEmpty()) return;
  clock_.setSourceActive(false);  // a large recording is read to its end; what grows wakes it
  status_->showFollowing("recording, all of it read");
}

void MainWindow::showComparedRuns() {
  std::vector<ComparedRun> compared;
  const RunConfig first = session_.config();
  for (int place = 0; place < static_cast<int>(session_.histories().size()) && session_.hasConfig(); ++place) {
    const RunConfig config = session_.config(place);
    ComparedRun run;
    run.noise_twin = place > 0 && is_noise_twin(first, config);
    for (const ConfigDifference& found : difference(first, config))
      run.settings.push_back(
          {QString::fromStdString(found.key), QString::fromStdString(found.a), QString::fromStdString(found.b)});
    compared.push_back(std::move(run));
  }
  if (!session_.hasConfig()) compared = comparedLogs(session_.histories());
  std::vector<RunConfig> configs;
  for (int place = 0; place < static_cast<int>(session_.histories().size()) && session_.hasConfig(); ++place)
    configs.push_back(session_.config(place));
  const std::string preset = comparison_preset_of(configs);
  compared_.set(std::move(compared), preset.empty() ? QString() : QString::fromStdString(preset_about(preset)));
  compare_->gradientPanel()->setLive(session_.isLive());
  run_bar_->chips()->setLive(session_.isLive());
  if (session_.hasConfig()) run_bar_->chips()->setFormats(otherFormats(first));
  showChips();
}

void MainWindow::showChips() {
  const auto& histories = session_.histories();
  const LabStatus status = session_.isLive() ? session_.lab()->status() : LabStatus{};
  std::vector<RunChips::Run> runs;
  for (int place = 0; place < static_cast<int>(histories.size()); ++place) {
    RunChips::Run run{QString::fromStdString(histories[static_cast<std::size_t>(place)]->info().name), {}, {}};
    if (place > 0 && session_.hasConfig())
      run.differs = settingsText(difference(session_.config(), session_.config(place)));
    for (const RunProgress& behind : status.catching_up)
      if (behind.run == session_.runAt(place)) run.progress = QString("%1 of %2").arg(behind.step).arg(status.step);
    runs.push_back(std::move(run));
  }
  run_bar_->chips()->showRuns(runs, selection_.run());
  live_bar_->showRun(runs.size() > 1 ? runLetter(selection_.run()) : QString());
}

}  // namespace moescope
