#include "core/lessons/lesson_runner.h"

#include <chrono>
#include <stdexcept>
#include <thread>

#include "core/lessons/toml_runs.h"
#include "core/training/engine/live_runs.h"

namespace moescope {
namespace {

void wait_until_stopped(LiveRuns& live) {
  while (live.status().running) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  live.flush();
  if (const std::string error = live.status().error; !error.empty()) throw std::runtime_error(error);
}

void change_settings(const LessonTask& task, LiveRuns& live) {
  for (int place = 0; place < std::ssize(live.histories()); ++place)
    for (const auto& [setting, value] : task.settings)
      if (task.run == kAllRuns || place == task.run)
        live.change({.run = live.histories().at(place)->info().run, .setting = setting, .value = value});
  live.flush();
}

void add_twin(const LessonTask& task, LiveRuns& live) {
  RunConfig twin = live.config(live.histories().front()->info().run);
  twin.name = task.name;
  apply_settings(task.settings, twin);
  live.add_run(twin);
  live.run_until(live.status().step);
  wait_until_stopped(live);
}

}  // namespace

void perform(const LessonTask& task, std::unique_ptr<LiveRuns>& live) {
  switch (task.kind) {
    case LessonTask::Kind::start:
      live = std::make_unique<LiveRuns>(task.start, "");
      return;
    case LessonTask::Kind::run_until:
      live->run_until(task.until);
      return wait_until_stopped(*live);
    case LessonTask::Kind::set:
      return change_settings(task, *live);
    case LessonTask::Kind::twin:
      return add_twin(task, *live);
    case LessonTask::Kind::show:
      return;
  }
}

LessonOutcome run_lesson(const Lesson& lesson, const std::function<void(const std::string&)>& progress) {
  LessonOutcome outcome;
  LessonReader reader(lesson.tensors);
  std::unique_ptr<LiveRuns> live;
  if (!lesson.runs.empty()) live = std::make_unique<LiveRuns>(lesson.runs, "");
  for (std::size_t i = 0; i < lesson.steps.size(); ++i) {
    const LessonStep& step = lesson.steps[i];
    for (const LessonTask& task : step.tasks) {
      if (progress) progress(task.text);
      perform(task, live);
    }
    if (live) {
      const auto histories = live->histories();
      reader.set_histories({histories.begin(), histories.end()});
    }
    for (const LessonCheck& check : step.checks) {
      outcome.checks.push_back({to_int(i), check.text, reader.judge(check)});
      outcome.holds &= outcome.checks.back().judgement.state == LessonJudgement::State::holds;
    }
    outcome.reveals.push_back(reader.fill_in(step.reveal, step.values));
  }
  return outcome;
}

}  // namespace moescope
