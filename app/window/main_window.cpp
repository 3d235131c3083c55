#include "app/window/main_window.h"

#include <QCloseEvent>
#include <QDragEnterEvent>
#include <QFileInfo>
#include <QMenu>
#include <QMenuBar>
#include <QMimeData>
#include <QProgressBar>
#include <QProgressDialog>
#include <QTimer>

#include "app/actions/capture_actions.h"
#include "app/actions/checkpoint_actions.h"
#include "app/actions/compare_actions.h"
#include "app/actions/file_actions.h"
#include "app/actions/live_settings.h"
#include "app/actions/queue_actions.h"
#include "app/actions/run_control.h"
#include "app/actions/run_costs.h"
#include "app/actions/scan_actions.h"
#include "app/actions/source_status.h"
#include "app/bars/popovers.h"
#include "app/bars/run_chips.h"
#include "app/bars/status_line.h"
#include "app/bars/window_bar.h"
#include "app/docks/outcomes_view.h"
#include "app/docks/side_docks.h"
#include "app/export/export_actions.h"
#include "app/help/manual.h"
#include "app/lessons/lesson_actions.h"
#include "app/lessons/lesson_guide.h"
#include "app/setup/setup_drawer.h"
#include "app/setup/setup_form.h"
#include "app/start/first_steps.h"
#include "app/start/full_page.h"
#include "app/start/start_page.h"
#include "app/window/commands.h"
#include "app/window/menus.h"
#include "app/window/projector_view.h"
#include "app/workspaces/compare_workspace.h"
#include "app/workspaces/window_layout.h"
#include "app/workspaces/workspace_tabs.h"
#include "app/workspaces/workspaces.h"
#include "core/recording/history/router_window.h"
#include "widgets/cluster/cluster_question.h"
#include "widgets/compare/judged_runs.h"
#include "widgets/look/layouts.h"
#include "widgets/look/tokens.h"
#include "widgets/microscaling/tensor_lab.h"
#include "widgets/microscaling/tensors_panel.h"
#include "widgets/overview/findings_panel.h"
#include "widgets/overview/timeline_bar.h"

namespace moescope {
namespace {

constexpr int kOpeningSteps = 1000, kShowOpeningAfterMs = 700;

// Shows the progress of opening a run in a bar with a button to cancel, which must not take the keys of an open run.
void showOpenings(RunSession* session, Selection* selection, QWidget* window) {
  QObject::connect(session, &RunSession::opened, selection, [selection] { selection->setOpening({}); });
  QObject::connect(session, &RunSession::failed, selection, [selection] { selection->setOpening({}); });
  QObject::connect(session, &RunSession::openingStarted, window, [session, selection, window](const QString& what) {
    selection->setOpening(what);
    auto* bar = new QProgressDialog(what, "Cancel", 0, kOpeningSteps, window);
    bar->setMinimumDuration(kShowOpeningAfterMs);
    bar->findChild<QProgressBar*>()->setFormat("%p %");
    bar->setAutoReset(false);
    QObject::connect(bar, &QProgressDialog::canceled, session, &RunSession::cancelOpening);
    QObject::connect(session, &RunSession::openingProgress, bar,
                     [bar](double share) { bar->setValue(static_cast<int>(kOpeningSteps * share)); });
    QObject::connect(session, &RunSession::openingStarted, bar, &QObject::deleteLater);
    QObject::connect(session, &RunSession::opened, bar, [bar] { delete bar; });
    QObject::connect(session, &RunSession::failed, bar, &QObject::deleteLater);
    bar->setValue(0);
  });
}

constexpr int kStatusMs = 250, kNoteMs = 15000;

// Returns the local files, or a set-up link, which comes as text or as the URL of a link on a page.
QStringList whatCanBeOpened(const QMimeData* data) {
  QStringList paths;
  for (const QUrl& url : data->urls())
    if (url.isLocalFile()) paths << url.toLocalFile();
  for (const QString& text : {data->urls().value(0).toString(), data->text()})
    if (paths.isEmpty() && is_setup_link(text.toStdString())) paths << text;
  return paths;
}

}  // namespace

MainWindow::MainWindow(bool remembers, const QStringList& about)
    : session_(this),
      selection_(this),
      clock_(&selection_, this),
      undo_(this),
      replay_(&selection_, this),
      compared_(this),
      findings_(&selection_, this),
      remembers_(remembers) {
  setObjectName("main_window");
  setWindowTitle("MoEScope");
  setAcceptDrops(true);
  resize(1280, 800);
  buildWorkspaces();
  buildDocks();
  // Connected before the listeners that show the runs.
  connect(&session_, &RunSession::opened, this, &MainWindow::takeRuns);
  buildActions();
  buildLessons();
  buildMenus(about);
  connectSession();
  connectForm();
  connectPanels();
  connectClock();
  since_status_.start();
  if (!remembers_) return;
  layout_->restore();
}

// Tab follows the order in which widgets are added to the window: bar, workspaces, status line.
void MainWindow::buildWorkspaces() {
  auto* central = new QWidget;
  status_ = new StatusLine(nullptr);
  messages_ = new Messages(status_);
  connect(messages_, &Messages::warned, this, &MainWindow::failed);
  messages_->keepInputs([this] { return session_.inputPaths(); });
  notice_ = new NoticeBar(central);
  auto* start = new StartPage(central);
  auto* lessons_page = new LessonsPage(central);
  workspaces_ = new WorkspaceTabs(&selection_, &findings_, &compared_, messages_, central);
  auto* column = plainColumn(central, 0);
  column->addWidget(notice_);
  column->addWidget(start, 1);
  column->addWidget(lessons_page, 1);
  column->addWidget(workspaces_, 1);
  auto* below = new QHBoxLayout;
  below->setContentsMargins(kSpace8, kSpace8, kSpace8, 0);
  below->addWidget(workspaces_->timeline());
  column->addLayout(below);
  bar_ = new WindowBar(workspaces_->tabs(), this);
  addToolBar(Qt::TopToolBarArea, bar_);
  setCentralWidget(central);
  setStatusBar(status_);
  form_ = new SetupForm;
  drawer_ = new SetupDrawer(form_, bar_->setupAction(), this);
  first_steps_ = new FirstSteps(start, lessons_page, &session_, &selection_, workspaces_);
}

void MainWindow::buildDocks() {
  for (const Qt::Corner corner : {Qt::TopLeftCorner, Qt::BottomLeftCorner}) setCorner(corner, Qt::LeftDockWidgetArea);
  for (const Qt::Corner corner : {Qt::TopRightCorner, Qt::BottomRightCorner})
    setCorner(corner, Qt::RightDockWidgetArea);
  const auto add = [this](Qt::DockWidgetArea area, auto* dock) {
    addDockWidget(area, dock);
    dock->hide();
    return dock;
  };
  actions_dock_ = add(Qt::RightDockWidgetArea, new ActionsDock(this));
  notes_ = add(Qt::RightDockWidgetArea, new NotesDock(&session_, &selection_, this));
  outcomes_ = new OutcomesView;
  layout_ = new WindowLayout(this, workspaces_);
  connect(layout_, &WindowLayout::handedOver, drawer_, &SetupDrawer::close);
  projector_ = new ProjectorView(layout_, messages_, this);
}

void MainWindow::buildActions() {
  const Actions::Context context{&session_, &selection_, workspaces_, messages_};
  settings_ = new LiveSettings(context, &undo_, form_, bar_->live(), actions_dock_);
  control_ = new RunControl(context, &replay_, bar_, status_);
  files_ = new FileActions(context, control_, form_);
  source_status_ = new SourceStatus(context, status_, notice_);
  accounts_ = new AccountActions(context, status_);
  comparison_ = new CompareActions(context, &compared_, bar_->chips());
  candidates_ = new QueueActions(context, outcomes_, notice_, files_);
  checkpoints_ = new CheckpointActions(context, actions_dock_);
  recordings_ = new RecordingActions(context);
  router_ = new RouterActions(context, settings_);
  exports_ = new ExportActions(context, &compared_);
  costs_ = new RunCosts(context, form_, comparison_, remembers_);
  new CaptureActions(context);
  new ScanActions(context);
}

void MainWindow::buildLessons() {
  auto* pane = new LessonPane;
  auto* guide = new LessonGuide(&session_, &selection_, control_, settings_, comparison_, workspaces_, pane);
  const Actions::Context context{&session_, &selection_, workspaces_, messages_};
  lessons_ = new LessonActions(context, this, guide, pane, layout_, remembers_);
  connect(files_, &FileActions::lessonOpened, lessons_, [this](const QString& path) { lessons_->start(path); });
  first_steps_->connectTo(control_, files_, lessons_);
  connect(workspaces_->text(), &TextWorkspace::modelWanted, first_steps_, &FirstSteps::showPage);
  first_steps_->page()->setCosts(costs_);
  first_steps_->page()->setRecentFiles(files_->recentMenu());
  connect(first_steps_->page(), &StartPage::setupRequested, drawer_, [this](const QString& preset) {
    form_->followPreset(preset);
    drawer_->open();
  });
  connect(first_steps_->lessonsPage(), &FullPage::shown, drawer_, &SetupDrawer::close);
  connect(first_steps_->lessonsPage(), &LessonsPage::planRequested, this,
          [this] { openManualPage(this, manualPage("lessons.md") + "#two-sessions-of-90-minutes"); });
}

void MainWindow::buildMenus(const QStringList& about) {
  buildFileMenu();
  buildEditMenu();
  buildRunMenu();
  buildActionsMenu();
  QMenu* view = menuBar()->addMenu("&View");
  view->addActions({bar_->setupAction(), bar_->liveAction()});
  QAction* start = first_steps_->addActionTo(view);
  fillViewMenu(view, workspaces_, layout_, projector_, &selection_);
  lessons_->addMenuTo(menuBar());
  fillHelpMenu(menuBar()->addMenu("&Help"), workspaces_, about);
  buildMenuButton({start, bar_->searchAction()});
}

// The menu bar is hidden; a button and the keys F10 and Alt open its menus, below the actions that are wanted most.
void MainWindow::buildMenuButton(const QList<QAction*>& first) {
  menuBar()->hide();
  auto* menu = new QMenu(this);
  menu->setObjectName("window_menu");
  menu->addActions(first);
  menu->addSeparator();
  menu->addActions(menuBar()->actions());
  bar_->setMenu(menu);
  connect(new MenuKey(this), &MenuKey::pressed, bar_, &WindowBar::openMenu);
}

void MainWindow::buildFileMenu() {
  QMenu* menu = menuBar()->addMenu("&File");
  files_->addOpenActionTo(menu);
  source_status_->addActionsTo(menu);
  accounts_->addActionsTo(menu);
  files_->addSaveActionsTo(menu);
  menu->addSeparator();
  exports_->addActionsTo(menu);
  menu->addSeparator();
  menu->addAction("&Quit", QKeySequence::Quit, this, &QWidget::close);
}

void MainWindow::buildEditMenu() {
  QMenu* menu = menuBar()->addMenu("&Edit");
  QAction* undo = undo_.createUndoAction(this, "&Undo");
  undo->setShortcut(QKeySequence::Undo);
  QAction* redo = undo_.createRedoAction(this, "&Redo");
  redo->setShortcuts({QKeySequence("Ctrl+Y"), QKeySequence("Ctrl+Shift+Z")});
  menu->addActions({undo, redo});
  menu->addSeparator();
  exports_->addCopyActionTo(menu);
  auto* setups = new SetupLinks({&session_, &selection_, workspaces_, messages_}, control_);
  setups->addActionsTo(menu);
  connect(files_, &FileActions::setupOpened, setups, &SetupLinks::open);
  menu->addAction(bar_->searchAction());
  connect(bar_->searchAction(), &QAction::triggered, this, [this] { openPalette(this); });
}

void MainWindow::buildRunMenu() {
  QMenu* menu = menuBar()->addMenu("&Run");
  menu->addActions({bar_->runAction(), bar_->stepAction(), bar_->resetAction()});
  comparison_->addActionsTo(menu);
  candidates_->addActionsTo(menu);
  menu->addSeparator();
  recordings_->addActionsTo(menu);
  menu->addSeparator();
  control_->addPresetsTo(menu);
}

void MainWindow::buildActionsMenu() {
  QMenu* menu = menuBar()->addMenu("&Actions");
  menu->setToolTipsVisible(true);
  QAction* dock = actions_dock_->toggleViewAction();
  dock->setText("&Actions panel");
  dock->setShortcut(Qt::Key_F3);
  menu->addAction(dock);
  menu->addSeparator();
  router_->addActionsTo(menu);
  menu->addSeparator();
  checkpoints_->addActionsTo(menu);
  menu->addSeparator();
  notes_->addActionsTo(menu);
}

void MainWindow::connectSession() {
  showOpenings(&session_, &selection_, this);
  connect(&session_, &RunSession::opened, this, &MainWindow::showOpened);
  connect(&session_, &RunSession::failed, messages_, [this](const QString& message) {
    if (!message.isEmpty()) messages_->warn(message);
  });
  connect(&session_, &RunSession::runsChanged, this, &MainWindow::showAddedOrRemovedRuns);
  connect(&session_, &RunSession::configChanged, this, &MainWindow::showSettings);
  connect(&session_, &RunSession::growingEnded, this, &MainWindow::showSettings);
  connect(&session_, &RunSession::growingEnded, this, &MainWindow::showGrowth);
  connect(&session_, &RunSession::grew, this, &MainWindow::showGrowth);
  connect(&selection_, &Selection::layerChosen, this, [this] { opened_layer_ = shown_layer_ = -1; });
  connect(&selection_, &Selection::focusChanged, this, [this] {
    if (selection_.run() == shown_run_) return;
    showSettings();
    showFindings();
  });
}

// Connects the requests of the form and of the live settings, except for changes of the open run.
void MainWindow::connectForm() {
  connect(form_, &SetupForm::startRequested, control_, [this](const RunConfig& config) { control_->start(config); });
  connect(control_, &RunControl::groupsRequested, candidates_, &QueueActions::start);
  connect(comparison_, &CompareActions::groupsRequested, candidates_, &QueueActions::start);
  connect(comparison_, &CompareActions::stepsRequested, control_, &RunControl::runUntil);
  connect(comparison_, &CompareActions::startRequested, control_,
          [this](const std::vector<RunConfig>& runs) { control_->startAll(runs, RunControl::Start::running); });
  connect(files_, &FileActions::formWanted, drawer_, &SetupDrawer::open);
  connect(settings_, &LiveSettings::formWanted, drawer_, &SetupDrawer::open);
  connect(settings_, &LiveSettings::popoverWanted, bar_, &WindowBar::openLive);
  connect(bar_->live(), &LivePopover::allSettingsRequested, drawer_, &SetupDrawer::open);
  connect(drawer_, &SetupDrawer::opened, bar_->live(), &QWidget::hide);
  connect(form_, &SetupForm::compareRequested, comparison_, &CompareActions::askForTwin);
  connect(form_, &SetupForm::twinRequested, comparison_, &CompareActions::addTwin);
  connect(form_, &SetupForm::valueTwinRequested, comparison_, &CompareActions::addTwinWith);
  connect(bar_->live(), &LivePopover::twinRequested, comparison_, &CompareActions::addTwinWith);
  connect(bar_->live(), &LivePopover::compareRequested, comparison_, &CompareActions::askForTwin);
}

void MainWindow::connectPanels() {
  for (Panel* panel : workspaces_->findChildren<Panel*>()) {
    connect(panel, &Panel::knobRequested, settings_, &LiveSettings::focus);
    connect(panel, &Panel::lessonRequested, lessons_, [this](const QString& number) { lessons_->start(number); });
    connect(panel, &Panel::manualRequested, this, [this](const QString& path) { openManualPage(this, path); });
    connect(panel, &Panel::accountRequested, accounts_, &AccountActions::showAccount);
  }
  for (Workspace* workspace : workspaces_->all()) {
    const ManualPage page = manualPageOn(workspace->name());
    for (Panel* panel : workspace->findChildren<Panel*>()) panel->setManualPage(page.path, page.title);
    connect(workspace, &Workspace::accountWanted, accounts_, &AccountActions::showAccount);
  }
  connect(workspaces_->timeline()->track(), &TimelineTrack::menuRequested, this, &MainWindow::showTimelineMenu);
  connect(&findings_, &FindingsWatch::changed, this, &MainWindow::showFindings);
  for (const auto change : {&LessonActions::started, &LessonActions::lessonLeft})
    connect(lessons_, change, this, &MainWindow::showFindings, Qt::QueuedConnection);
  connect(status_, &StatusLine::findingsClicked, this, &MainWindow::listFindings);
  connect(workspaces_->microscaling()->tensorLab(), &TensorLab::formatWanted, this,
          [this](const QString& setting) { liveSettings()->focus(setting); });
  TensorsPanel* tensors = workspaces_->microscaling()->tensorLab()->browser();
  connect(tensors, &TensorsPanel::fileOpened, bar_->chips(), &RunChips::showFile);
  connect(bar_->chips(), &RunChips::logWanted, files_, &FileActions::askAddLog);
  connect(bar_->chips(), &RunChips::fileActivated, this, [this] {
    workspaces_->bringUp(workspaces_->microscaling());
    workspaces_->microscaling()->showTensors();
  });
  connect(notes_, &NotesDock::refused, messages_, &Messages::warn);
  connect(checkpoints_, &CheckpointActions::wentBack, &undo_, &QUndoStack::clear);
}

// Connects the events that may bring new data to the screen. FrameClock itself watches keys and the mouse.
void MainWindow::connectClock() {
  connect(&clock_, &FrameClock::ticked, this, &MainWindow::onTick);
  connect(&undo_, &QUndoStack::indexChanged, &clock_, &FrameClock::wake);
  connect(&session_, &RunSession::grew, &clock_, &FrameClock::wake);
  connect(&session_, &RunSession::failed, &clock_, &FrameClock::wake);
  connect(workspaces_, &QStackedWidget::currentChanged, &clock_, &FrameClock::wake);
  connect(workspaces_, &QStackedWidget::currentChanged, this, &MainWindow::showFullestLayer);
  connect(notes_, &NotesDock::pinned, &clock_, &FrameClock::wake);
  const auto wake_in_replay = [this] {
    if (session_.showsLog()) clock_.wake();
  };
  connect(&replay_, &Replay::changed, this, wake_in_replay);
  connect(&selection_, &Selection::timeChanged, this, wake_in_replay);
}

void MainWindow::takeRuns() {
  undo_.clear();
  selection_.setHistories(session_.histories());
  selection_.fitRange();
  const bool opened = !session_.isLive() && selection_.history();
  opened_layer_ = opened ? least_even_layer(*selection_.history(), INT64_MAX).layer : -1;
  if (opened_layer_ >= 0) selection_.showLayer(opened_layer_);
  first_layer_ = shown_layer_ = opened_layer_;
  showFullestLayer();
  if (opened) workspaces_->leaveEmpty();
}

// Selects the layer of the verdict once the verdict is known, unless the user has chosen a layer. takeRuns() has
// selected the least even layer.
void MainWindow::showLayerOfVerdict() {
  const Health* health = findings_.health(selection_.run());
  if (opened_layer_ < 0 || !health) return;
  opened_layer_ = -1;
  const bool is_kept = shown_layer_ == selection_.layer();  // Microscaling opens on its own layer
  if (is_kept && health->layer >= 0) selection_.showLayer(first_layer_ = shown_layer_ = health->layer);
  showFullestLayer();
}

// Until another layer is chosen, All-to-all of an opened file has the one whose fullest rank is fullest, and the other
// pages have the first one.
void MainWindow::showFullestLayer() {
  const auto frame = selection_.frame();
  if (!frame || lessons_->active() || std::exchange(shown_layer_, -1) != selection_.layer()) return;
  const bool is_by_rank = workspaces_->current() == workspaces_->allToAll();
  const int fullest = is_by_rank ? layer_loads(*frame, ClusterQuestion().ep).fullest() : -1;
  selection_.showLayer(shown_layer_ = fullest >= 0 ? fullest : first_layer_);
}

void MainWindow::showOpened() {
  showGrowth();
  if (session_.hasConfig()) form_->setDraft(session_.config());
  showSettings();
  const QString shown = QFileInfo(session_.path()).fileName();
  setWindowTitle(shown.isEmpty() ? QString("MoEScope") : shown + " - MoEScope");
  clock_.wake();
}

// Growing sources make the clock tick without events.
void MainWindow::showGrowth() {
  clock_.setSourceActive(session_.isLive() || session_.isFollowing() || session_.fillingShare() >= 0);
  selection_.setGrowing(session_.showsNewSteps() && !session_.isFinished());
}

// Keeps the visible range and the selection, even if a file is read again and its histories are new objects.
void MainWindow::showAddedOrRemovedRuns() {
  const bool following = selection_.following();
  const std::int64_t step = selection_.step();
  const StepRange range = selection_.range();
  const bool whole = !selection_.history() || range == selection_.history()->steps();
  selection_.setHistories(session_.histories());
  if (!following) {
    selection_.setRange(range);
    selection_.setStep(step);
  } else if (!whole && selection_.history()) {
    const std::int64_t last = selection_.history()->steps().last;
    selection_.setRange({last - range.size() + 1, last});
  }
  showSettings();
  showGrowth();
}

// Shows the settings of the active run in all bars.
void MainWindow::showSettings() {
  shown_run_ = selection_.run();
  if (selection_.histories().size() == session_.histories().size()) comparison_->showDifferences();
  settings_->show();
  if (!session_.histories().empty()) control_->showOpen();
}

// Shows the number of findings in the status line, and those of the active run on the timeline. In a lesson they would
// give answers away.
void MainWindow::showFindings() {
  const bool are_shown = !lessons_->active();
  QStringList by_run;
  const int runs = static_cast<int>(selection_.histories().size());
  for (int run = 0; runs > 1 && run < runs; ++run)
    if (const int count = findings_.count(Severity::severe, run) + findings_.count(Severity::warning, run))
      by_run << QString("%1 %2").arg(runLetter(selection_, run)).arg(count);
  status_->showFindings(findings_.count(Severity::severe), findings_.count(Severity::warning),
                        findings_.ready() && are_shown, by_run.join(", "));
  showLayerOfVerdict();
  std::vector<Finding> shown;
  for (const Finding& finding : findings_.findings())
    if (are_shown && findings_.placeOf(finding) == selection_.run() && !findings_.isMuted(finding))
      shown.push_back(finding);
  workspaces_->timeline()->track()->setFindings(shown);
}

// Lists all findings above the status line; the chosen one is opened in the panel.
void MainWindow::listFindings() {
  auto* menu = new QMenu(this);
  menu->setObjectName("findings_menu");
  menu->setAttribute(Qt::WA_DeleteOnClose);
  std::vector<const Finding*> listed;
  for (const Finding& finding : findings_.findings()) {
    const auto is_same = [&](const Finding* other) { return says_the_same(*other, finding); };
    if (findings_.isMuted(finding) || std::ranges::any_of(listed, is_same)) continue;
    listed.push_back(&finding);
    const QString letters = findings_.lettersOf(finding), run = letters.isEmpty() ? letters : letters + "  ";
    const QString id = QString::fromStdString(finding_id(finding));
    menu->addAction(signPixmap(signOf(finding), kMarkSize, isDark(palette()), devicePixelRatioF()),
                    run + QString::fromStdString(finding.title) + QLatin1Char('\t') + findingSteps(finding).front(),
                    workspaces_, [this, id] { workspaces_->openFinding(id); });
  }
  if (menu->isEmpty()) return workspaces_->bringUpFindings();
  menu->popup(status_->mapToGlobal(QPoint(kSpace8, -menu->sizeHint().height())));
}

void MainWindow::onTick() {
  if (!picture_moved_ && selection_.history() && selection_.history()->steps().size() > 1) {
    picture_moved_ = true;
    emit pictureMoved();
  }
  if (since_status_.elapsed() < kStatusMs && clock_.ticking()) return;
  since_status_.restart();
  if (LiveRuns* live = selection_.history() ? session_.live() : nullptr) {
    const LiveStatus status = live->status();
    control_->showStatus(status);
    session_.noticeRuns();
    comparison_->showStatus(status, control_->end());
    costs_->showStatus(status);
    source_status_->showStatus(status);
    showGrowth();
  }
  checkpoints_->showKept();  // a log has none
  source_status_->showProgress();
  if (!selection_.history()) return;
  const bool has_own_file = session_.paths().size() == static_cast<qsizetype>(selection_.histories().size());
  const QString path = has_own_file ? session_.paths()[selection_.run()] : session_.path();
  status_->showRecording(path, session_.isLive(), *selection_.history());
}

void MainWindow::showTimelineMenu(QPoint global, qint64 step) {
  QMenu menu(this);
  menu.setToolTipsVisible(true);
  notes_->addActionsTo(&menu, step);
  checkpoints_->addActionsTo(&menu, step);
  menu.exec(global);
}

void MainWindow::showEvent(QShowEvent* event) {
  QMainWindow::showEvent(event);
  layout_->setDefaultIfNothingWasKept();
  if (!focusWidget()) setFocus(Qt::OtherFocusReason);  // else Qt focuses the first button and draws its focus frame
}

void MainWindow::end() {
  session_.end();
  outcomes_->end();
}

// The window hides at once; the end of the session waits for the current step.
void MainWindow::closeEvent(QCloseEvent* event) {
  if (LiveRuns* live = session_.live()) live->pause();
  outcomes_->cancel();
  lessons_->leave();
  projector_->leave();
  if (remembers_) {
    layout_->save();
  }
  QMainWindow::closeEvent(event);
}

void MainWindow::changeEvent(QEvent* event) {
  if (event->type() == QEvent::WindowStateChange) clock_.setVisible(!isMinimized());
  QMainWindow::changeEvent(event);
}

void MainWindow::dragEnterEvent(QDragEnterEvent* event) {
  if (!whatCanBeOpened(event->mimeData()).isEmpty()) event->acceptProposedAction();
}

void MainWindow::dropEvent(QDropEvent* event) {
  const QStringList paths = whatCanBeOpened(event->mimeData());
  event->acceptProposedAction();
  QTimer::singleShot(0, this, [this, paths] {
    files_->openDropped(paths);
  });  // queued, since the program that the files come from waits until this event ends
}

}  // namespace moescope
