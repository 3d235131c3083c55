// A lesson without a window: trains, performs every task, and judges every check.
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
  // What the reveals of the steps say, with the values of this run.
  std::vector<std::string> reveals;
  bool holds = true;  // every check of every step
};

// `progress` is told what is being done. Throws std::runtime_error when the training fails.
LessonOutcome run_lesson(const Lesson& lesson, const std::function<void(const std::string&)>& progress = {});

// One task on a lab; waits until it is done. `show` is not a lab's.
class Lab;
void perform(const LessonTask& task, std::unique_ptr<Lab>& lab);

}  // namespace moescope
