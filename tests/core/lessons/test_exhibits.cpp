// Every exhibit shows its fault, with our trainer.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/lessons/lesson_runner.h"
#include "core/lessons/lesson_twins.h"
#include "tests/support/seeds.h"

using namespace moescope;

namespace {

struct ExhibitCase {
  std::string exhibit;
  std::int64_t seed;
};

std::vector<ExhibitCase> exhibit_cases() {
  std::vector<ExhibitCase> all;
  for (const std::string& exhibit : exhibit_names())
    for (const std::int64_t seed : tried_seeds()) all.push_back({exhibit, seed});
  return all;
}

std::string exhibit_case_name(const testing::TestParamInfo<ExhibitCase>& info) {
  std::string name = info.param.exhibit + "_seed_" + std::to_string(info.param.seed);
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
}

class Exhibits : public testing::TestWithParam<ExhibitCase> {};

}  // namespace

TEST_P(Exhibits, HappensAsItSays) {
  const ParsedLesson parsed = find_lesson(GetParam().exhibit, GetParam().seed);
  ASSERT_TRUE(parsed.problems.empty()) << parsed.problems.front().text();
  const LessonOutcome outcome = run_lesson(parsed.lesson);
  EXPECT_FALSE(outcome.checks.empty());
  for (const LessonOutcome::Line& line : outcome.checks)
    EXPECT_EQ(line.judgement.state, LessonJudgement::State::holds) << line.text << ": " << line.judgement.text;
  for (const std::string& reveal : outcome.reveals) EXPECT_EQ(reveal.find("**...**"), std::string::npos) << reveal;
}

INSTANTIATE_TEST_SUITE_P(All, Exhibits, testing::ValuesIn(exhibit_cases()), exhibit_case_name);

// An exhibit has a right and a wrong run that differ in the fault alone. It names the thread that it comes from, and
// says how to look for the fault in one's own training.
TEST(ExhibitList, EachIsAPairWithASourceAndACheckOfOnesOwn) {
  EXPECT_EQ(exhibit_names().size(), 12u);
  const std::vector<std::string> lessons = lesson_names();
  for (const std::string& name : exhibit_names()) {
    SCOPED_TRACE(name);
    const ParsedLesson parsed = find_lesson(name);
    ASSERT_TRUE(parsed.problems.empty()) << parsed.problems.front().text();
    const Lesson& exhibit = parsed.lesson;
    EXPECT_NE(std::ranges::find(lessons, exhibit.explained_by), lessons.end()) << exhibit.explained_by;
    ASSERT_EQ(exhibit.runs.size(), 2u);
    EXPECT_EQ(exhibit.runs[0].name, "right");
    EXPECT_EQ(exhibit.runs[1].name, "wrong");
    EXPECT_TRUE(unclear_comparisons(exhibit).empty());
    ASSERT_EQ(exhibit.steps.size(), 1u);
    const LessonStep& step = exhibit.steps.front();
    const bool has_thread = step.text.find("issue") != std::string::npos ||
                            step.text.find("pull") != std::string::npos ||
                            step.text.find("prime-rl") != std::string::npos;
    EXPECT_TRUE(has_thread) << "names the thread that it comes from";
    EXPECT_NE(step.reveal.find("**In your own training:**"), std::string::npos);
    EXPECT_FALSE(step.view.panels.empty());
  }
}
