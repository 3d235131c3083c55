#include "app/window/first_steps.h"

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

constexpr char kHintKey[] = "hints/cards";
constexpr std::int64_t kHintAfterSteps = 20;

RunConfig withExpertsIn(RunConfig config, Recipe recipe) {
  config.precision.experts = recipe;
  return config;
}

}  // namespace

FirstSteps::FirstSteps(StartCard* card, RunSession* session, Selection* selection, RunControl* control,
                       FileActions* files, LessonActions* lessons, WorkspaceTabs* workspaces, bool hints)
    : QObject(card),
      card_(card),
      session_(session),
      control_(control),
      lessons_(lessons),
      workspaces_(workspaces),
      hint_done_(!hints || settings().value(kHintKey).toBool()) {
  connect(session_, &RunSession::opened, this, &FirstSteps::onOpened);
  connect(session_, &RunSession::openingStarted, this, [this] { opening_own_ = std::exchange(next_is_own_, false); });
  connect(session_, &RunSession::failed, this, [this] { opening_own_ = false; });
  connect(lessons_, &LessonActions::started, this, &FirstSteps::takeDoorsAway);
  connect(workspaces_->microscaling()->tensorLab()->browser(), &TensorsPanel::tensorChosen, this,
          &FirstSteps::takeDoorsAway);
  connect(card_, &StartCard::closed, this, &FirstSteps::onClosed);
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
  card_->showDoors("Where to begin", "Below, the preset small is in training: watch, or choose.");
}

void FirstSteps::onOpened() {
  own_open_ = std::exchange(opening_own_, false);
  if (!own_open_) takeDoorsAway();
}

void FirstSteps::takeDoorsAway() {
  if (std::exchange(doors_shown_, false)) card_->hide();
}

// Who presses this door has not trained the run that the program began by itself, and is not asked about it.
void FirstSteps::takeLesson() {
  lessons_->start("1", own_open_ ? LessonActions::Ask::never : LessonActions::Ask::before_replacing);
}

void FirstSteps::comparePrecisions() {
  const RunConfig small = load_preset("small").config;
  std::vector<RunConfig> configs;
  for (const Recipe recipe : {Recipe::bf16, Recipe::mxfp8_rceil, Recipe::mxfp4})
    configs.push_back(withExpertsIn(small, recipe));
  for (std::size_t i = 1; i < configs.size(); ++i) configs[i].name = twin_name(configs[0], configs[i]);
  workspaces_->bringUp(workspaces_->compare());
  control_->startAll(std::move(configs), RunControl::Start::running);
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
