#include "app/start/first_steps.h"

#include <QFileInfo>
#include <algorithm>

#include "app/actions/file_actions.h"
#include "app/actions/run_control.h"
#include "app/lessons/lesson_actions.h"
#include "app/session/run_session.h"
#include "app/session/settings.h"
#include "app/start/empty_panel_button.h"
#include "app/start/start_page.h"
#include "app/workspaces/overview.h"
#include "app/workspaces/workspace_tabs.h"
#include "core/config/config_toml.h"

namespace moescope {

namespace {

constexpr char kLastRunKey[] = "last_run";

}  // namespace

FirstSteps::FirstSteps(StartPage* page, RunSession* session, Selection* selection, WorkspaceTabs* workspaces,
                       bool remembers)
    : QObject(page), page_(page), session_(session), workspaces_(workspaces), remembers_(remembers) {
  connect(session_, &RunSession::opened, this, &FirstSteps::onOpened);
  connect(session_, &RunSession::failed, this, &FirstSteps::look, Qt::QueuedConnection);
  connect(workspaces_, &QStackedWidget::currentChanged, this, &FirstSteps::look);
  for (const Workspace* workspace : workspaces_->all())
    for (Panel* panel : workspace->panels())
      connect(new EmptyPanelButton(panel, session_, selection), &EmptyPanelButton::pressed, this,
              &FirstSteps::showPage);
}

void FirstSteps::connectTo(RunControl* control, FileActions* files, LessonActions* lessons) {
  lessons_ = lessons;
  connect(lessons, &LessonActions::started, this, &FirstSteps::look);
  connect(page_, &StartPage::lessonRequested, lessons, [lessons] { lessons->start("1"); });
  connect(page_, &StartPage::openRequested, files, &FileActions::askOpen);
  connect(page_, &StartPage::compareRequested, control, [control] { control->startAll(load_preset("precisions")); });
  connect(page_, &StartPage::trainRequested, control,
          [control](const QString& preset) { control->startAll(load_preset(preset.toStdString())); });
  connect(page_, &StartPage::sampleRequested, files, [files](const QString& name) { files->openSamples({name}); });
  connect(page_, &StartPage::lastRequested, files, &FileActions::open);
}

void FirstSteps::offerPage() {
  wanted_ = true;
  page_->showLast(lastRun());
  look();
}

void FirstSteps::showPage() {
  workspaces_->bringUp(workspaces_->overview());
  offerPage();
}

// While the first run is being opened the page stays, so that it is not replaced by empty panels in between.
void FirstSteps::look() {
  const bool busy = session_->opening() && page_->isHidden();
  const bool shown = wanted_ && session_->histories().empty() && !session_->isFollowing() && !busy &&
                     workspaces_->current() == workspaces_->overview() && !(lessons_ && lessons_->active());
  page_->setVisible(shown);
  workspaces_->setVisible(!shown);
}

void FirstSteps::onOpened() {
  keepLastRun();
  look();
}

// At once and not at the end, which may be a crash. A run in memory leaves nothing to open.
void FirstSteps::keepLastRun() const {
  const QStringList files = session_->isLive() ? QStringList{session_->path()} : session_->paths();
  if (!remembers_ || files.isEmpty() || files.front().isEmpty()) return;
  QStringList full;
  for (const QString& file : files) full << QFileInfo(file).absoluteFilePath();
  settings().setValue(kLastRunKey, full);
}

QStringList FirstSteps::lastRun() const {
  if (!remembers_) return {};
  const QStringList files = settings().value(kLastRunKey).toStringList();
  const bool there = std::ranges::all_of(files, [](const QString& file) { return QFileInfo::exists(file); });
  return there ? files : QStringList();
}

}  // namespace moescope
