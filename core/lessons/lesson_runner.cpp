#include "core/lessons/lesson_runner.h"

#include <chrono>
#include <stdexcept>
#include <thread>

#include "core/training/lab/lab.h"

namespace moescope {
namespace {

void wait_until_stopped(Lab& lab) {
  while (lab.status().running) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  lab.flush();
  if (const std::string error = lab.status().error; !error.empty()) throw std::runtime_error(error);
}

std::vector<std::shared_ptr<const History>> readable(const Lab& lab) {
  const auto histories = lab.histories();
  return {histories.begin(), histories.end()};
}

// The number of the run at a place.
int run_at(const Lab& lab, int place) {
  return lab.histories().at(static_cast<std::size_t>(place))->info().run;
}

void change_settings(const LessonTask& task, Lab& lab) {
  const bool all = task.run == kAllRuns;
  const int last = all ? static_cast<int>(lab.histories().size()) - 1 : task.run;
  for (int place = all ? 0 : task.run; place <= last; ++place)
    for (const LessonSetting& setting : task.settings)
      lab.change({.run = run_at(lab, place), .key = setting.key, .value = setting.value});
  lab.flush();
}

void add_twin(const LessonTask& task, Lab& lab) {
  RunConfig twin = lab.config(run_at(lab, 0));
  twin.name = task.name;
  for (const LessonSetting& setting : task.settings) find_field(setting.key)->set(twin, setting.value);
  lab.add_run(twin);
  lab.run_until(lab.status().step);
  wait_until_stopped(lab);
}

}  // namespace

void perform(const LessonTask& task, std::unique_ptr<Lab>& lab) {
  switch (task.kind) {
    case LessonTask::Kind::start:
      lab = std::make_unique<Lab>(task.start.configs, "");
      break;
    case LessonTask::Kind::run_until:
      lab->run_until(task.until);
      wait_until_stopped(*lab);
      break;
    case LessonTask::Kind::set:
      change_settings(task, *lab);
      break;
    case LessonTask::Kind::twin:
      add_twin(task, *lab);
      break;
    case LessonTask::Kind::show:
      break;
  }
}

LessonOutcome run_lesson(const Lesson& lesson, const std::function<void(const std::string&)>& progress) {
  LessonOutcome outcome;
  LessonReader reader(lesson.tensors);
  std::unique_ptr<Lab> lab;
  if (!lesson.runs.empty()) lab = std::make_unique<Lab>(lesson.runs.configs, "");
  for (std::size_t i = 0; i < lesson.steps.size(); ++i) {
    const LessonStep& step = lesson.steps[i];
    for (const LessonTask& task : step.tasks) {
      if (progress) progress(task.text);
      if (task.kind == LessonTask::Kind::show)
        reader.set_chosen(task.format);
      else
        perform(task, lab);
    }
    if (lab) reader.set_histories(readable(*lab));
    for (const LessonCheck& check : step.checks) {
      outcome.checks.push_back({static_cast<int>(i), check.text, reader.judge(check)});
      outcome.holds &= outcome.checks.back().judgement.state == LessonJudgement::State::holds;
    }
    outcome.reveals.push_back(reader.fill_in(step.reveal, step.values));
  }
  return outcome;
}

}  // namespace moescope
