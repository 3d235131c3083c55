#include "app/window/first_steps.h"

#include <QFileInfo>
#include <algorithm>
#include <utility>

#include "app/actions/file_actions.h"
#include "app/actions/run_control.h"
#include "app/bars/start_card.h"
#include "app/bars/start_doors.h"
#include "app/lessons/lesson_actions.h"
#include "app/session/run_session.h"
#include "app/session/settings.h"
#include "app/window/empty_panel_doors.h"
#include "app/workspaces/compare_workspace.h"
#include "app/workspaces/microscaling_workspace.h"
#include "app/workspaces/workspace_tabs.h"
#include "widgets/microscaling/tensor_lab.h"
#include "widgets/microscaling/tensors_panel.h"

namespace moescope {

namespace {

constexpr char kHintKey[] = "hints/cards", kLastRunKey[] = "last_run";
constexpr std::int64_t kHintAfterSteps = 20;

}  // namespace

FirstSteps::FirstSteps(StartCard* card, RunSession* session, Selection* selection, RunControl* control,
                       FileActions* files, LessonActions* lessons, WorkspaceTabs* workspaces, bool hints)
    : QObject(card),
      card_(card),
      session_(session),
      control_(control),
      lessons_(lessons),
      workspaces_(workspaces),
      remembers_(hints),
      hint_done_(!hints || settings().value(kHintKey).toBool()) {
  connect(session_, &RunSession::opened, this, &FirstSteps::onOpened);
  connect(session_, &RunSession::openingStarted, this, [this] { opening_own_ = std::exchange(next_is_own_, false); });
  connect(session_, &RunSession::failed, this, [this] { opening_own_ = false; });
  connect(lessons_, &LessonActions::started, this, &FirstSteps::takeDoorsAway);
  connect(workspaces_->microscaling()->tensorLab()->browser(), &TensorsPanel::tensorChosen, this,
          &FirstSteps::takeDoorsAway);
  connect(card_, &StartCard::closed, this, &FirstSteps::onClosed);
  connect(card_, &StartCard::lastRequested, files, &FileActions::open);
  const auto connect_doors = [this, files](StartDoors* doors) {
    connect(doors, &StartDoors::lessonRequested, this, &FirstSteps::takeLesson);
    connect(doors, &StartDoors::openRequested, files, &FileActions::askOpen);
    connect(doors, &StartDoors::compareRequested, this, &FirstSteps::comparePrecisions);
  };
  connect_doors(card_->doors());
  for (const Workspace* workspace : workspaces_->all())
    for (Panel* panel : workspace->panels()) connect_doors((new EmptyPanelDoors(panel, session_, selection))->doors());
}

void FirstSteps::showDoors() {
  doors_shown_ = next_is_own_ = true;
  card_->showDoors("Where to begin", "Below, the preset small is in training: watch, or choose.", lastRun());
}

void FirstSteps::onOpened() {
  own_open_ = std::exchange(opening_own_, false);
  if (own_open_) return;
  takeDoorsAway();
  keepLastRun();
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

void FirstSteps::takeDoorsAway() {
  if (std::exchange(doors_shown_, false)) card_->hide();
}

// Who presses this door has not trained the run that the program began by itself, and is not asked about it.
void FirstSteps::takeLesson() {
  lessons_->start("1", own_open_ ? LessonActions::Ask::never : LessonActions::Ask::before_replacing);
}

void FirstSteps::comparePrecisions() {
  control_->startAll(load_preset("precisions"));
}

void FirstSteps::showStatus(const LabStatus& status) {
  if (hint_done_ || hint_shown_ || doors_shown_ || lessons_->active() || status.step < kHintAfterSteps) return;
  hint_shown_ = true;
  card_->showHint("Every panel has a card: press ? in its corner, or E over a figure, to read what it shows and how.");
}

// Who has closed the doors does not want a hint in their place.
void FirstSteps::onClosed() {
  if (std::exchange(doors_shown_, false)) {
    hint_done_ = true;
  } else if (!std::exchange(hint_done_, true)) {
    settings().setValue(kHintKey, true);
  }
}

}  // namespace moescope
