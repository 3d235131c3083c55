#include "widgets/panel/taught_in.h"

#include <map>
#include <string>

#include "core/lessons/lesson.h"

namespace moescope {
namespace {

void noteFigures(const LessonStep& step, const TaughtIn& lesson, std::map<std::string, TaughtIn>* taught) {
  for (const LessonCheck& check : step.checks) taught->emplace(check.figure.key, lesson);
  for (const auto& [name, figure] : step.values) taught->emplace(figure.key, lesson);
}

std::map<std::string, TaughtIn> figuresOfLessons() {
  std::map<std::string, TaughtIn> taught;
  int number = 0;
  for (const std::string& name : lesson_names()) {
    const Lesson lesson = find_lesson(name).lesson;
    const TaughtIn place{++number, QString::fromStdString(lesson.title)};
    for (const LessonStep& step : lesson.steps) noteFigures(step, place, &taught);
  }
  return taught;
}

}  // namespace

std::optional<TaughtIn> taughtIn(std::string_view figure) {
  static const std::map<std::string, TaughtIn> kTaught = figuresOfLessons();
  const auto found = kTaught.find(std::string(figure));
  return found == kTaught.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace moescope
