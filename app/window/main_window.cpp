#include "app/window/main_window.h"

#include <QApplication>
#include <QCloseEvent>
#include <QDockWidget>
#include <QDragEnterEvent>
#include <QFileInfo>
#include <QMessageBox>
#include <QMimeData>
#include <QScreen>
#include <QTimer>

#include "app/bars/actions_dock.h"
#include "app/bars/live_bar.h"
#include "app/bars/notice_bar.h"
#include "app/bars/run_bar.h"
#include "app/bars/status_line.h"
#include "app/session/replay.h"
#include "app/session/settings.h"
#include "app/setup/live_change_command.h"
#include "app/setup/setup_form.h"
#include "app/window/layout_autosave.h"
#include "app/workspaces/compare_workspace.h"
#include "app/workspaces/microscaling_workspace.h"
#include "app/workspaces/overview.h"
#include "app/workspaces/text_workspace.h"
#include "core/numerics/parallel.h"

namespace moescope {

namespace {

constexpr int kLayoutVersion = 3;
constexpr int kStatusMs = 250;
constexpr int kSmallScreen = 1440;  // on which the first window takes all there is
constexpr int kRoomForForm = 1600;  // narrower windows start with the form folded away

QStringList texts(const std::vector<ConfigProblem>& problems) {
  QStringList lines;
  for (const ConfigProblem& problem : problems) lines << QString::fromStdString(problem.text());
  return lines;
}

QStringList localFiles(const QMimeData* data) {
  QStringList paths;
  for (const QUrl& url : data->urls())
    if (url.isLocalFile()) paths << url.toLocalFile();
  return paths;
}

}  // namespace

MainWindow::MainWindow(bool remembers) : clock_(&selection_), remembers_(remembers) {
  setObjectName("main_window");
  setWindowTitle("MoEScope");
  setAcceptDrops(true);
  resize(1280, 800);
  status_ = new StatusLine(this);
  setStatusBar(status_);
  status_->showThreads(num_threads());
  buildBars();
  buildWorkspaces();
  buildForm();
  buildActions();
  buildNotes();
  buildLessons();
  buildMenus();
  connectRunBar();
  connectForm();
  connectSession();
  connectComparison();
  connectFindings();
  connectExpertCard();
  connectReplay();
  connectCapture();
  connectCluster();
  connect(&clock_, &FrameClock::ticked, this, &MainWindow::onTick);
  connect(&undo_, &QUndoStack::indexChanged, &clock_, &FrameClock::wake);
  since_status_.start();
  if (!remembers_) return;
  restoreLayout();
  new LayoutAutosave(this);
}

MainWindow::~MainWindow() = default;

void MainWindow::buildBars() {
  run_bar_ = new RunBar(this);
  addToolBar(Qt::TopToolBarArea, run_bar_);
  addToolBarBreak();
  live_bar_ = new LiveBar(this);
  addToolBar(Qt::TopToolBarArea, live_bar_);
}

void MainWindow::buildForm() {
  form_ = new SetupForm;
  form_dock_ = new QDockWidget("Run set-up", this);
  form_dock_->setObjectName("dock_setup");
  form_dock_->setAllowedAreas(Qt::LeftDockWidgetArea | Qt::RightDockWidgetArea);
  form_dock_->setWidget(form_);
  form_dock_->setMaximumWidth(400);  // what is left belongs to the panels
  setCorner(Qt::TopLeftCorner, Qt::LeftDockWidgetArea);
  setCorner(Qt::BottomLeftCorner, Qt::LeftDockWidgetArea);
  addDockWidget(Qt::LeftDockWidgetArea, form_dock_);
  form_dock_->hide();
  QAction* toggle = run_bar_->setupAction();
  connect(toggle, &QAction::triggered, form_dock_, &QDockWidget::setVisible);
  connect(form_dock_->toggleViewAction(), &QAction::toggled, toggle, &QAction::setChecked);
}

void MainWindow::connectRunBar() {
  connect(run_bar_, &RunBar::runRequested, this, [this](bool run) { run ? goOn() : pause(); });
  connect(run_bar_, &RunBar::stepRequested, this, &MainWindow::stepOnce);
  connect(run_bar_, &RunBar::resetRequested, this, &MainWindow::resetRun);
  connect(run_bar_, &RunBar::presetRequested, this, &MainWindow::startPreset);
  connect(run_bar_, &RunBar::speedRequested, this, [this](double limit) {
    speed_limit_ = limit;
    replay_->setSpeed(limit);
    if (Lab* lab = session_.lab()) lab->set_max_steps_per_s(limit);
  });
  connect(run_bar_, &RunBar::untilRequested, this, &MainWindow::setUntil);
}

void MainWindow::connectForm() {
  connect(form_, &SetupForm::startRequested, this, [this](const RunConfig& config) { startRun(config); });
  connect(form_, &SetupForm::liveChangeRequested, this, &MainWindow::requestChange);
  connect(form_, &SetupForm::openConfigRequested, this, &MainWindow::askOpenConfig);
  connect(form_, &SetupForm::presetRequested, this,
          [this](const QString& name) { form_->setDraft(load_preset(name.toStdString()).config); });
  connect(live_bar_, &LiveBar::changeRequested, this, &MainWindow::requestChange);
}

void MainWindow::connectSession() {
  connect(&session_, &RunSession::openingStarted, this, &MainWindow::onOpeningStarted);
  connect(&session_, &RunSession::opened, this, &MainWindow::onOpened);
  connect(&session_, &RunSession::failed, this, &MainWindow::onFailed);
  connect(&session_, &RunSession::configChanged, this, &MainWindow::showConfigEverywhere);
  connect(&session_, &RunSession::grew, &clock_, &FrameClock::wake);
  connect(&session_, &RunSession::growingEnded, this, &MainWindow::onGrowingEnded);
}

void MainWindow::startRun(const RunConfig& config, Start start) {
  startRuns({config}, start);
}

void MainWindow::startRuns(std::vector<RunConfig> configs, Start start) {
  if (session_.opening()) return;
  for (const RunConfig& config : configs)
    if (const auto problems = validate(config); !problems.empty()) return complain(texts(problems).join("\n"));
  run_when_open_ = start == Start::running;
  const QString name = QString::fromStdString(configs.front().name);
  guarded([&] { session_.start(std::move(configs), recorded_ ? newRecordingPath(name) : QString()); });
}

bool MainWindow::loadConfigIntoForm(const QString& path) {
  const ParsedConfig parsed = load_config(path.toStdString());
  if (!parsed.problems.empty()) {
    complain(texts(parsed.problems).join("\n"));
    return false;
  }
  rememberRecentFile(path);
  form_->setDraft(parsed.config);
  return true;
}

void MainWindow::startPreset(const QString& name) {
  startTogether(load_preset(name.toStdString()));
}

void MainWindow::startTogether(const ParsedConfig& parsed) {
  if (!parsed.twins.empty()) showWorkspace(compare_);
  startRuns(all_runs(parsed), Start::running);
}

void MainWindow::resetRun() {
  if (session_.isRecording()) return replay_->toStart();
  if (!session_.isLive()) return;
  const bool running = session_.lab()->status().running;
  std::vector<RunConfig> configs;
  for (int place = 0; place < static_cast<int>(session_.histories().size()); ++place)
    configs.push_back(session_.config(place));
  startRuns(std::move(configs), running ? Start::running : Start::paused);
}

// The end that was asked for counts until it is reached; going on from there has no end.
void MainWindow::goOn() {
  if (session_.isRecording()) return replay_->play();
  Lab* lab = session_.lab();
  if (!lab) return;
  if (until_ && *until_ > lab->status().step)
    lab->run_until(*until_);
  else
    lab->run();
  clock_.wake();
}

void MainWindow::setUntil(std::optional<qint64> step) {
  until_ = step;
  run_bar_->showUntil(step);
  if (session_.isLive() && session_.lab()->status().running) goOn();
}

void MainWindow::pause() {
  if (Lab* lab = session_.lab())
    lab->pause();
  else
    replay_->pause();
  clock_.wake();
}

void MainWindow::stepOnce() {
  if (Lab* lab = session_.lab())
    lab->step_once();
  else if (session_.isRecording())
    replay_->stepOnce();
  clock_.wake();
}

void MainWindow::requestChange(const QString& key, const ConfigValue& value) {
  changeRun(selection_.run(), key, value);
}

void MainWindow::changeRun(int place, const QString& key, const ConfigValue& value) {
  const ConfigField* field = find_field(key.toStdString());
  if (!session_.isLive() || !field || place >= static_cast<int>(session_.histories().size())) return;
  RunConfig wanted = session_.config(place);
  const ConfigValue before = field->get(wanted);
  if (before == value) return;
  field->set(wanted, value);
  if (const auto problems = validate(wanted); !problems.empty()) {
    live_bar_->showProblem(QString::fromStdString(problems.front().message));
    actions_->showProblem(QString::fromStdString(problems.front().message));
    return;
  }
  undo_.push(new LiveChangeCommand(&session_, session_.runAt(place), *field, before, value));
}

void MainWindow::onOpeningStarted(const QString& what) {
  progress_ = new QProgressDialog(what, "Cancel", 0, 1000, this);
  progress_->setMinimumDuration(700);
  progress_->setAutoReset(false);
  progress_->setAutoClose(false);
  connect(progress_, &QProgressDialog::canceled, &session_, &RunSession::cancelOpening);
  connect(&session_, &RunSession::openingProgress, progress_,
          [this](double share) { progress_->setValue(static_cast<int>(1000 * share)); });
  progress_->setValue(0);
}

void MainWindow::onOpened() {
  if (progress_) progress_->deleteLater();
  undo_.clear();
  growing_ended_ = false;
  notice_->showNotice({});
  replay_->pause();
  pause_at_bytes_ = kPauseAfterBytes;
  selection_.setHistories(session_.histories());
  selection_.fitRange();
  if (Lab* lab = session_.lab()) {
    lab->set_max_steps_per_s(speed_limit_);
    if (run_when_open_) goOn();
  } else {
    for (const QString& path : session_.paths()) rememberRecentFile(path);
    status_->showFollowing(!session_.attachedTo().isEmpty() ? "attached to " + session_.attachedTo()
                           : session_.canGrow()             ? "recording, new steps are followed"
                                                            : "as it was when it was opened");
    if (session_.histories().size() > 1 && session_.paths().size() > 1) showWorkspace(compare_);
    sayWhatWasSkipped();
    notice_->showNotice(session_.missing().join('\n'));
  }
  clock_.setSourceActive(session_.isLive() || session_.isFollowing() || session_.fillingShare() >= 0);
  if (session_.hasConfig()) form_->setDraft(session_.config());
  showConfigEverywhere();
  const QString shown = session_.attachedTo().isEmpty() ? QFileInfo(session_.path()).fileName() : session_.attachedTo();
  setWindowTitle(shown.isEmpty() ? QString("MoEScope") : shown + " - MoEScope");
  clock_.wake();
}

void MainWindow::onFailed(const QString& message) {
  if (progress_) progress_->deleteLater();
  if (!message.isEmpty()) complain(message);
  clock_.wake();
}

void MainWindow::showConfigEverywhere() {
  shown_run_ = selection_.run();
  showComparedRuns();
  if (session_.histories().empty()) return;
  const RunConfig config = session_.config(shown_run_);
  const RunConfig* live = session_.isLive() ? &config : nullptr;
  live_bar_->showConfig(session_.hasConfig() ? &config : nullptr, session_.isLive());
  actions_->showDomains(session_.histories().front()->info().domains);
  actions_->showConfig(session_.hasConfig() ? &config : nullptr, session_.isLive());
  form_->setOpenRun(live);
  form_->setPurpose(purposeOfForm());
  text_->setLive(live != nullptr);
  showPlacement(live);
  if (live)
    run_bar_->showRun(*live);
  else if (session_.isFollowing())
    run_bar_->showFollowing(QFileInfo(session_.path()).fileName());
  else if (!session_.attachedTo().isEmpty())
    run_bar_->showRecording((growing_ended_ ? "detached from " : "attached to ") + session_.attachedTo(),
                            session_.hasConfig() ? &config : nullptr);
  else if (session_.isRecording())
    showRecording(session_.hasConfig() ? &config : nullptr);
  else
    run_bar_->showNothing();
}

// Empty: the settings are those of the run in training.
QString MainWindow::purposeOfForm() const {
  if (session_.isLive()) return {};
  return session_.hasConfig() ? "Settings of the next run, filled in from what is open"
                              : "Settings of the next run, not of what is open";
}

void MainWindow::onTick() {
  if (!picture_moved_ && selection_.history() && selection_.history()->steps().size() > 1) {
    picture_moved_ = true;
    emit pictureMoved();
  }
  if (since_status_.elapsed() < kStatusMs && clock_.ticking()) return;
  since_status_.restart();
  if (Lab* lab = session_.lab()) {
    const LabStatus status = lab->status();
    run_bar_->showStatus(status);
    session_.noticeRuns();
    showChips();
    showCheckpoints();
    status_->showTraining(status);
    if (status.running) pauseBeforeTheDiskIsFull();
  }
  if (session_.isFollowing()) status_->showFollowing(session_.followingText());
  if (const double share = session_.fillingShare(); share >= 0)
    status_->showFollowing(QString("recording; reading all of it: %1 %").arg(static_cast<int>(100 * share)));
  if (selection_.history()) status_->showHoldings(session_.path(), *selection_.history());
  status_->showScreen(clock_.framesPerSecond(), clock_.frameMs());
}

void MainWindow::pauseBeforeTheDiskIsFull() {
  if (recordingBytes(session_.path()) < pause_at_bytes_) return;
  pause_at_bytes_ += kPauseAfterBytes;
  pause();
  complain(QString("Paused: the recording %1 has grown by %2 GB. Space goes on; a larger telemetry.every keeps "
                   "recordings smaller.")
               .arg(session_.path())
               .arg(kPauseAfterBytes / 1e9));
}

void MainWindow::complain(const QString& message) {
  auto* box = new QMessageBox(QMessageBox::Warning, "MoEScope", message, QMessageBox::Ok, this);
  box->setAttribute(Qt::WA_DeleteOnClose);
  box->setObjectName("complaint");
  box->setTextInteractionFlags(Qt::TextSelectableByMouse);
  box->open();
  emit failed(message);
}

void MainWindow::guarded(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception& e) {
    complain(QString::fromUtf8(e.what()));
  }
}

void MainWindow::setTheme(Theme theme) {
  applyTheme(theme);
  rememberTheme(theme);
}

void MainWindow::restoreDefaultLayout() {
  addDockWidget(Qt::LeftDockWidgetArea, form_dock_);
  form_dock_->setFloating(false);
  form_dock_->setVisible(width() >= kRoomForForm);
  for (Workspace* workspace : workspaces()) workspace->arrange();
  // Docks that were just shown get their sizes when the layout has taken them in.
  QTimer::singleShot(0, this, [this] {
    resizeDocks({form_dock_}, {320}, Qt::Horizontal);
    for (Workspace* workspace : workspaces()) workspace->setDefaultSizes();
  });
}

void MainWindow::rememberLayout() {
  QSettings store = settings();
  store.setValue("window/geometry", saveGeometry());
  store.setValue("window/screen", screen()->availableSize());
  store.setValue("window/layout", saveState(kLayoutVersion));
  store.setValue("window/workspace", workspace()->name());
  for (const Workspace* each : workspaces()) store.setValue("workspaces/" + each->name(), each->remembered());
}

void MainWindow::restoreLayout() {
  const QSettings store = settings();
  restoreGeometry(store.value("window/geometry").toByteArray());
  // What was arranged on a larger screen would run past this one's edges.
  const QSize room = screen()->availableSize();
  const QSize room_then = store.value("window/screen", room).toSize();
  const bool smaller_screen = room.width() < room_then.width() || room.height() < room_then.height();
  if (smaller_screen || !store.contains("window/geometry")) fitScreen();
  arranged_ = restoreState(store.value("window/layout").toByteArray(), kLayoutVersion);
  if (smaller_screen && room.width() < kRoomForForm) form_dock_->hide();
  for (Workspace* each : workspaces()) each->restore(store.value("workspaces/" + each->name()).toMap());
  showWorkspace(store.value("window/workspace").toString());
}

void MainWindow::fitScreen() {
  const QSize room = screen()->availableSize();
  if (room.width() <= kSmallScreen) setWindowState(Qt::WindowMaximized);
  resize(QSize(1760, 1000).boundedTo(room - QSize(40, 60)));
}

void MainWindow::showEvent(QShowEvent* event) {
  QMainWindow::showEvent(event);
  if (arranged_) return;
  arranged_ = true;
  restoreDefaultLayout();
}

// The training stops within a step; the session's end waits for it with the window already gone from the screen.
void MainWindow::closeEvent(QCloseEvent* event) {
  if (Lab* lab = session_.lab()) lab->pause();
  leaveLesson();
  if (remembers_) rememberLayout();
  QMainWindow::closeEvent(event);
}

void MainWindow::changeEvent(QEvent* event) {
  if (event->type() == QEvent::WindowStateChange) clock_.setVisible(!isMinimized());
  QMainWindow::changeEvent(event);
}

void MainWindow::dragEnterEvent(QDragEnterEvent* event) {
  if (!localFiles(event->mimeData()).isEmpty()) event->acceptProposedAction();
}

void MainWindow::dropEvent(QDropEvent* event) {
  const QStringList paths = localFiles(event->mimeData());
  event->acceptProposedAction();
  QTimer::singleShot(0, this, [this, paths] { openFiles(paths); });  // the other program waits for this event's end
}

}  // namespace moescope
