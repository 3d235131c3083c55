// Every built-in lesson predicts what will happen; these tests train its runs and check the predictions.
#include <gtest/gtest.h>

#include <cmath>

#include "core/lessons/lesson_runner.h"
#include "core/lessons/lesson_twins.h"
#include "tests/support/seeds.h"

using namespace moescope;

namespace {

struct Case {
  std::string lesson;
  std::int64_t seed;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::string& lesson : lesson_names())
    for (const std::int64_t seed : tried_seeds()) all.push_back({lesson, seed});
  return all;
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.lesson + "_seed_" + std::to_string(info.param.seed);
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
}

class Lessons : public testing::TestWithParam<Case> {};

}  // namespace

TEST_P(Lessons, HappensAsItSays) {
  const ParsedLesson parsed = find_lesson(GetParam().lesson, GetParam().seed);
  ASSERT_TRUE(parsed.problems.empty()) << parsed.problems.front().text();
  const LessonOutcome outcome = run_lesson(parsed.lesson);
  EXPECT_FALSE(outcome.checks.empty());
  for (const LessonOutcome::Line& line : outcome.checks)
    EXPECT_EQ(line.judgement.state, LessonJudgement::State::holds)
        << "step " << line.step + 1 << ", " << line.text << ": " << line.judgement.text;
  // Every value that a reveal mentions is known.
  for (const std::string& reveal : outcome.reveals) {
    EXPECT_EQ(reveal.find("{"), std::string::npos) << reveal;
    EXPECT_EQ(reveal.find("**...**"), std::string::npos) << reveal;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Lessons, testing::ValuesIn(cases()), case_name);

TEST(LessonList, HasAllOfTheCourse) {
  EXPECT_EQ(lesson_names(), (std::vector<std::string>{"rich-get-richer", "bias-thermostat", "bias-or-loss", "mx-block",
                                                      "outlier-channel", "hidden-loss", "precision-routing", "who-pays",
                                                      "domain-shift", "deepep-measured", "quantiles", "fp4-gemms"}));
}

// A step that asks a question has checks and a reveal that answer it. Every lesson asks at least twice.
TEST(LessonList, EveryStepThatAsksCanBeAnswered) {
  for (const std::string& name : lesson_names()) {
    const Lesson lesson = find_lesson(name).lesson;
    EXPECT_FALSE(lesson.group.empty()) << name;
    int calls = 0;
    for (const LessonStep& step : lesson.steps) {
      if (!step.prediction) continue;
      ++calls;
      EXPECT_FALSE(step.checks.empty()) << name << ": " << step.title;
      EXPECT_FALSE(step.reveal.empty()) << name << ": " << step.title;
    }
    EXPECT_GE(calls, 2) << name;
  }
}

// Runs that are shown side by side, or that a check compares, differ in one thing, so that an effect has one cause.
TEST(LessonList, RunsSideBySideDifferInOneThing) {
  for (const std::string& name : lesson_names()) {
    const ParsedLesson parsed = find_lesson(name);
    ASSERT_TRUE(parsed.problems.empty()) << name;
    for (const std::string& comparison : unclear_comparisons(parsed.lesson))
      ADD_FAILURE() << name << ", step " << comparison;
  }
}

// The first page of lesson 4 names the amax of a block and an element that FLOOR clips.
TEST(LessonList, TheBlockOnScreenHasTheAmaxThatIsSpokenOf) {
  const Lesson lesson = find_lesson("mx-block").lesson;
  const LessonStep& step = lesson.steps.front();
  ASSERT_NE(step.text.find("amax is 1.90: FLOOR clips element 4"), std::string::npos);
  const LessonTask& task = step.tasks.front();
  const std::vector<float> values = make_tensor(lesson.tensors.front());
  const int block = task.format.format.block, first = task.column / block * block;
  const auto* row = &values[static_cast<std::size_t>(task.row * lesson.tensors.front().cols + first)];
  int largest = 0;
  for (int i = 1; i < block; ++i)
    if (std::fabs(row[i]) > std::fabs(row[largest])) largest = i;
  EXPECT_EQ(largest, 4);
  EXPECT_NEAR(std::fabs(row[largest]), 1.90, 0.005);
}
