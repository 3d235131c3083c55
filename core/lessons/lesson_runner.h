// Runs a lesson without a window: trains, performs every task and evaluates every check.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/lessons/lesson.h"
#include "core/lessons/lesson_figures.h"

namespace moescope {

struct LessonOutcome {
  struct Line {
    int step;  // from 0
    std::string text;
    LessonJudgement judgement;
  };
  std::vector<Line> checks;
  // The reveals of the steps, with the values of this run filled in.
  std::vector<std::string> reveals;
  bool holds = true;  // every check of every step
};

// `progress` is called with what is being done. Throws std::runtime_error when the training fails.
LessonOutcome run_lesson(const Lesson& lesson, const std::function<void(const std::string&)>& progress = {});

// Performs one task on a lab and waits until it is done. `show` does nothing: it concerns the window.
class LiveRuns;
void perform(const LessonTask& task, std::unique_ptr<LiveRuns>& live);

}  // namespace moescope
