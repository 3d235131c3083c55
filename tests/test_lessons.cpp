// Every built-in lesson states what will happen; here it does, with our trainer, for three seeds each.
#include <gtest/gtest.h>

#include "core/lesson_runner.h"

using namespace moescope;

namespace {

struct Case {
  std::string lesson;
  std::int64_t seed;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::string& lesson : lesson_names())
    for (const std::int64_t seed : {1, 2, 3}) all.push_back({lesson, seed});
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
  // Every value that a reveal speaks of was there.
  for (const std::string& reveal : outcome.reveals) {
    EXPECT_EQ(reveal.find("{"), std::string::npos) << reveal;
    EXPECT_EQ(reveal.find("**...**"), std::string::npos) << reveal;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Lessons, testing::ValuesIn(cases()), case_name);

TEST(LessonList, HasTheTenOfTheCourse) {
  EXPECT_EQ(lesson_names(), (std::vector<std::string>{"rich-get-richer", "bias-thermostat", "bias-or-loss", "mx-block",
                                                      "loud-channel", "hidden-loss", "precision-routing", "who-pays",
                                                      "domain-shift", "deepep-measured"}));
}

// A lesson that asks must have an answer that its own checks can show, and one that trains must say what to do.
TEST(LessonList, EveryStepThatAsksCanBeAnswered) {
  for (const std::string& name : lesson_names()) {
    const Lesson lesson = find_lesson(name).lesson;
    int asked = 0;
    for (const LessonStep& step : lesson.steps) {
      if (!step.prediction) continue;
      ++asked;
      EXPECT_FALSE(step.checks.empty()) << name << ": " << step.title;
      EXPECT_FALSE(step.reveal.empty()) << name << ": " << step.title;
    }
    EXPECT_GE(asked, 2) << name;
  }
}
