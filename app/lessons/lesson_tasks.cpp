#include "app/lessons/lesson_tasks.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "app/actions/compare_actions.h"
#include "app/actions/live_settings.h"
#include "app/actions/run_control.h"
#include "app/session/run_session.h"
#include "core/config/config_field.h"
#include "widgets/microscaling/tensor_lab.h"

namespace moescope {

namespace {

bool hasSettings(const RunConfig& config, const std::vector<LessonSetting>& settings) {
  return std::all_of(settings.begin(), settings.end(), [&](const LessonSetting& setting) {
    return setting.setting.field().get(config) == setting.value;
  });
}

}  // namespace

LessonTasks::LessonTasks(RunSession* session, RunControl* control, LiveSettings* settings, CompareActions* comparison,
                         TensorLab* tensor_lab, QObject* parent)
    : QObject(parent),
      session_(session),
      control_(control),
      settings_(settings),
      comparison_(comparison),
      tensor_lab_(tensor_lab) {
  connect(session_, &RunSession::openingStarted, this,
          [this] { opening_ours_ = std::exchange(starting_ours_, false); });
  connect(session_, &RunSession::opened, this, [this] {
    ours_open_ = std::exchange(opening_ours_, false);
    ours_ = session_->histories();
  });
  connect(session_, &RunSession::failed, this, [this] { opening_ours_ = false; });
  connect(session_, &RunSession::runsChanged, this, &LessonTasks::noticeClosedRuns);
}

// Stops treating the runs as the lesson's own once one of them is closed: a lesson identifies runs by their places,
// which then change.
void LessonTasks::noticeClosedRuns() {
  const auto& open = session_->histories();
  if (open.size() < ours_.size() || !std::equal(ours_.begin(), ours_.end(), open.begin())) ours_open_ = false;
  ours_ = open;
}

void LessonTasks::startRuns(const std::vector<RunConfig>& configs) {
  starting_ours_ = true;
  control_->startForLesson(configs);
  starting_ours_ = false;
}

void LessonTasks::endTraining() {
  if (!runsAreOurs()) return;
  control_->setUntil({});
  session_->live()->pause();
}

bool LessonTasks::runsAreOurs() const {
  return ours_open_ && session_->isLive();
}

void LessonTasks::perform(const LessonTask& task) {
  switch (task.kind) {
    case LessonTask::Kind::start:
      return startRuns(task.start);
    case LessonTask::Kind::run_until:
      return control_->runUntil(task.until);
    case LessonTask::Kind::set:
      for (const int place : places(task))
        for (const auto& [setting, value] : task.settings) settings_->change(place, setting, value);
      return;
    case LessonTask::Kind::twin: {
      RunConfig twin = session_->config();
      for (const auto& [setting, value] : task.settings) setting.field().set(twin, value);
      twin.name = task.name;
      return comparison_->addRun(twin);
    }
    case LessonTask::Kind::show:
      return tensor_lab_->showTensor(QString::fromStdString(task.tensor), task.format, task.row, task.column);
  }
}

bool LessonTasks::reached(std::int64_t step) const {
  if (!session_->isLive() || session_->opening()) return false;
  const LiveStatus status = session_->live()->status();
  if (status.step < step || !status.catching_up.empty()) return false;
  return std::ranges::all_of(session_->histories(),
                             [&](const auto& history) { return history->steps().last + 1 >= step; });
}

bool LessonTasks::stillDone(const LessonTask& task) const {
  return task.kind != LessonTask::Kind::run_until || session_->live()->status().step >= task.until;
}

std::vector<int> LessonTasks::places(const LessonTask& task) const {
  if (task.run != kAllRuns) return {task.run};
  std::vector<int> all(session_->histories().size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

bool LessonTasks::done(const LessonTask& task) const {
  const int runs = to_int(session_->histories().size());
  switch (task.kind) {
    case LessonTask::Kind::start:
      return false;
    case LessonTask::Kind::run_until:
      return reached(task.until);
    case LessonTask::Kind::set:
      return session_->isLive() && std::ranges::all_of(places(task), [&](int place) {
               return place < runs && hasSettings(session_->config(place), task.settings);
             });
    case LessonTask::Kind::twin:
      for (int place = 1; session_->isLive() && place < runs; ++place)
        if (hasSettings(session_->config(place), task.settings)) return session_->live()->status().catching_up.empty();
      return false;
    case LessonTask::Kind::show:
      return tensor_lab_->tensorName() == QString::fromStdString(task.tensor) && tensor_lab_->format() == task.format &&
             tensor_lab_->showsBlockOf(task.row, task.column);
  }
  return false;
}

}  // namespace moescope
