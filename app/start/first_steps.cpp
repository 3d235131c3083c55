#include "app/start/first_steps.h"

#include <QApplication>
#include <QMenu>

#include "app/actions/close_question.h"
#include "app/actions/file_actions.h"
#include "app/actions/run_control.h"
#include "app/lessons/lesson_actions.h"
#include "app/session/run_session.h"
#include "app/start/full_page.h"
#include "app/start/start_page.h"
#include "app/workspaces/workspace_tabs.h"
#include "app/workspaces/workspaces.h"
#include "core/config/config_toml.h"
#include "widgets/look/style.h"
#include "widgets/microscaling/tensor_lab.h"
#include "widgets/microscaling/tensors_panel.h"
#include "widgets/overview/timeline_bar.h"
#include "widgets/selection/selection.h"

namespace moescope {

namespace {

// Says what a workspace would show if a run were open.
QString whatIsShown(const Workspace& workspace) {
  QStringList panels;
  for (const QDockWidget* dock : workspace.docks()) panels << dock->windowTitle();
  const QString last = panels.takeLast();
  return QString(
             "<i>%1</i> shows these panels of a run: %2 and %3. No run is open: train one, or open a log, a "
             "recording or a checkpoint.")
      .arg(workspace.name(), panels.join(", "), last);
}

bool needsRun(const WorkspaceTabs& workspaces) {
  return workspaces.current() != workspaces.microscaling() && workspaces.current() != workspaces.cluster();
}

}  // namespace

FirstSteps::FirstSteps(StartPage* page, LessonsPage* lessons_page, RunSession* session, Selection* selection,
                       WorkspaceTabs* workspaces)
    : QObject(page),
      page_(page),
      lessons_page_(lessons_page),
      session_(session),
      selection_(selection),
      workspaces_(workspaces) {
  connect(session_, &RunSession::opened, this, [this] { ask(nullptr); });
  connect(session_, &RunSession::failed, this, &FirstSteps::look, Qt::QueuedConnection);
  connect(selection_, &Selection::dataChanged, this, &FirstSteps::showTimeline);
  const auto show_panels = [this] { ask(nullptr); };
  const TensorsPanel* tensors = workspaces_->microscaling()->tensorLab()->browser();
  connect(tensors, &TensorsPanel::fileOpened, this, show_panels);
  connect(workspaces_, &WorkspaceTabs::broughtUp, this, show_panels);
  for (FullPage* full_page : pages()) {
    connect(full_page, &FullPage::backRequested, this, show_panels);
    connect(full_page, &FullPage::shown, this, &FirstSteps::showProgress);
  }
  look();
}

void FirstSteps::connectTo(RunControl* control, FileActions* files, LessonActions* lessons) {
  connectPages(lessons);
  connect(page_, &StartPage::logRequested, files, [files] { files->askOpen("Training logs"); });
  connect(page_, &StartPage::recordingRequested, files, [files] { files->askOpen("Recordings"); });
  connect(page_, &StartPage::checkpointRequested, files, &FileActions::askOpenCheckpoint);
  const auto start = [this, control](const QString& preset) {
    askToClose(*selection_, page_->window(), "The training", "Close and train",
               [control, preset] { control->startAll(load_preset(preset.toStdString())); });
  };
  connect(page_, &StartPage::compareRequested, control, [start] { start("precisions"); });
  connect(page_, &StartPage::trainRequested, control, start);
  connect(page_, &StartPage::sampleRequested, files, &FileActions::openSample);
}

// Connects what is asked for on the pages about lessons. A lesson that is open is shown again as it is.
void FirstSteps::connectPages(LessonActions* lessons) {
  lessons_ = lessons;
  const auto start = [this, lessons](const QString& name) {
    name == lessons->progress().open_lesson ? ask(nullptr) : lessons->start(name);
  };
  connect(page_, &StartPage::lessonRequested, this, start);
  connect(lessons_page_, &LessonsPage::chosen, this, start);
  connect(page_, &StartPage::lessonsRequested, this, &FirstSteps::showLessons);
  connect(lessons, &LessonActions::pageRequested, this, &FirstSteps::showLessons);
  connect(lessons_page_, &LessonsPage::startPageRequested, this, &FirstSteps::showPage);
  connect(lessons_page_->list(), &LessonList::formRequested, lessons, &LessonActions::askForm);
  connect(lessons_page_->list(), &LessonList::handInRequested, lessons, &LessonActions::askHandIn);
  connect(lessons, &LessonActions::started, this, [this] { ask(nullptr); });
  connect(lessons, &LessonActions::lessonLeft, this, &FirstSteps::look);
}

QAction* FirstSteps::addActionTo(QMenu* menu) {
  QAction* show = menu->addAction("&Start page", QKeySequence("Alt+Home"), this, &FirstSteps::showPage);
  show->setWhatsThis("Start page: lessons, presets, logs, recordings and checkpoints");
  return show;
}

QList<FullPage*> FirstSteps::pages() const {
  return {page_, lessons_page_};
}

void FirstSteps::offerPage() {
  is_wanted_ = true;
  showProgress();
  if (isEmpty() && !session_->opening() && !needsRun(*workspaces_)) requested_page_ = page_;
  look();
}

bool FirstSteps::isEmpty() const {
  return session_->histories().empty() && !session_->isFollowing() && !(lessons_ && lessons_->active());
}

void FirstSteps::showPage() {
  is_wanted_ = true;
  ask(page_);
}

void FirstSteps::showLessons() {
  ask(lessons_page_);
}

void FirstSteps::ask(FullPage* page) {
  requested_page_ = page;
  if (page) showProgress();
  look();
  if (page) page->setFocus(Qt::OtherFocusReason);
}

// Shows the page that was asked for; without one, the start page while no run is open and the workspace needs one. The
// page stays while the first run is being opened, so that no empty panels are shown in between.
void FirstSteps::look() {
  const bool busy = session_->opening() && page_->isHidden();
  const Workspace* workspace = workspaces_->current();
  const bool offers = is_wanted_ && isEmpty() && !busy && needsRun(*workspaces_);
  const FullPage* page = requested_page_;
  if (!page && offers) page = page_;
  for (FullPage* full_page : pages()) {
    QWidget* focused = QApplication::focusWidget();
    if (full_page != page && full_page->isAncestorOf(focused)) focused->clearFocus();  // not to the menu button
    full_page->setBack(offers ? QString() : "Back to " + workspace->name());
    full_page->setVisible(full_page == page);
  }
  if (offers && workspace != workspaces_->overview()) page_->setHeading("MoEScope", whatIsShown(*workspace));
  workspaces_->setVisible(!page);
  if (lessons_) lessons_->setPaneShown(!page);
  workspaces_->tabs()->setProperty(kNoneChosenProperty, requested_page_ != nullptr);
  workspaces_->tabs()->update();
  showTimeline();
}

void FirstSteps::showTimeline() {
  workspaces_->timeline()->setVisible(!workspaces_->isHidden() && selection_->history());
}

// Called whenever a page is shown.
void FirstSteps::showProgress() {
  if (!lessons_) return;
  page_->showProgress(lessons_->progress());
  lessons_page_->showProgress(lessons_->progress());
}

}  // namespace moescope
