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
    int step;  // counted from 0
    std::string text;
    LessonJudgement judgement;
  };
  std::vector<Line> checks;
  // LessonStep::reveal of each step, with the values of this training filled in.
  std::vector<std::string> reveals;
  bool holds = true;  // true if every check of every step holds
};

// `progress` is called with the current activity. Throws std::runtime_error if the training fails.
LessonOutcome run_lesson(const Lesson& lesson, const std::function<void(const std::string&)>& progress = {});

// Performs one task on the open runs and waits until it is done. `show` does nothing, because it needs a window.
class LiveRuns;
void perform(const LessonTask& task, std::unique_ptr<LiveRuns>& live);

}  // namespace moescope
