// Every exhibit shows its fault, with our trainer.
#include <gtest/gtest.h>

#include <cmath>
#include <regex>
#include <sstream>
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

namespace {

// True if what is expected of run A and of another run cannot both hold: ranges of numbers that are apart, or a bound
// on the other run that is a multiple of run A's figure.
bool tells_apart(const LessonCheck& wrong, const std::vector<LessonCheck>& checks) {
  const RunFigure& wrong_figure = std::get<RunFigure>(wrong.figure.source);
  if (wrong_figure.run == 0) return false;
  for (const auto& bound : {wrong.above, wrong.below})
    if (bound && bound->figure && std::get<RunFigure>(bound->figure->source).run == 0) return true;
  return std::ranges::any_of(checks, [&](const LessonCheck& right) {
    if (std::get<RunFigure>(right.figure.source).run != 0 || right.figure.key != wrong.figure.key) return false;
    const auto excludes = [](const auto& above, const auto& below) {
      return above && below && above->number >= below->number;
    };
    return excludes(right.above, wrong.below) || excludes(wrong.above, right.below);
  });
}

}  // namespace

// An exhibit has a right run A and wrong ones that differ in the fault alone. It asks for a prediction, and its text
// gives no result and no thread away, which the explanation names. Its check for one's own training is a block of code
// that fails in the wrong run, as a figure shows, and names the switches of other programs or the command that finds
// the fault in a log.
TEST(ExhibitList, EachHasASourceAndACheckOfOnesOwnThatFailsInTheWrongRun) {
  EXPECT_EQ(exhibit_names().size(), 10u);
  const std::vector<std::string> lessons = lesson_names();
  for (const std::string& name : exhibit_names()) {
    SCOPED_TRACE(name);
    const ParsedLesson parsed = find_lesson(name);
    ASSERT_TRUE(parsed.problems.empty()) << parsed.problems.front().text();
    const Lesson& exhibit = parsed.lesson;
    EXPECT_NE(std::ranges::find(lessons, exhibit.explained_by), lessons.end()) << exhibit.explained_by;
    ASSERT_GE(exhibit.runs.size(), 2u);
    for (const RunConfig& run : exhibit.runs) {  // the name gives no verdict before the prediction
      EXPECT_NE(run.name, "right");
      EXPECT_NE(run.name, "wrong");
    }
    EXPECT_TRUE(unclear_comparisons(exhibit).empty());
    ASSERT_EQ(exhibit.steps.size(), 1u);
    const LessonStep& step = exhibit.steps.front();
    ASSERT_TRUE(step.prediction);
    for (const std::string& choice : step.prediction->choices)  // a reason would argue for the choice, or against it
      EXPECT_EQ(choice.find(':'), std::string::npos) << choice;
    const std::size_t source = step.reveal.find("**Where it happened:**");
    const std::size_t own_training = step.reveal.find("**In your own training,**");
    ASSERT_LT(source, own_training);
    ASSERT_NE(own_training, std::string::npos);
    for (const char* word : {"issue ", "pull request "}) EXPECT_EQ(step.text.find(word), std::string::npos) << word;
    EXPECT_LT(step.reveal.find("](https://", source), own_training) << "leads to the thread that it comes from";
    const std::string advice = step.reveal.substr(own_training);
    EXPECT_NE(advice.find("\nassert "), std::string::npos);
    EXPECT_TRUE(advice.find("Megatron-LM") != std::string::npos ||
                advice.find("moescope-cli check") != std::string::npos);
    EXPECT_TRUE(
        std::ranges::any_of(step.checks, [&](const LessonCheck& check) { return tells_apart(check, step.checks); }));
    EXPECT_FALSE(step.view.panels.empty());
    for (const LessonCheck& check : step.checks) {  // one name for a finding in Watch, text and command
      if (check.figure.key != "finding") continue;
      std::string finding = std::get<RunFigure>(check.figure.source).argument;
      EXPECT_NE(check.text.find('"' + finding + '"'), std::string::npos) << check.text;
      EXPECT_NE(advice.find('*' + finding + '*'), std::string::npos) << finding;
      std::ranges::replace(finding, ' ', '-');
      EXPECT_NE(advice.find("--fail-on " + finding + '\n'), std::string::npos) << finding;
    }
  }
}

// A line of code is not wrapped at 1280 x 800, a name in a sentence has no hyphen at which it could be, and no word is
// wider than the page.
TEST(ExhibitList, LinesOfCodeFitThePage) {
  constexpr std::size_t kCharacters = 44;
  for (const std::string& name : exhibit_names()) {
    const LessonStep step = find_lesson(name).lesson.steps.front();
    std::istringstream lines(step.text + "\n" + step.reveal);
    bool is_code = false;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("```"))
        is_code = !is_code;
      else if (is_code)
        EXPECT_LE(line.size(), kCharacters) << name << ": " << line;
      else
        EXPECT_FALSE(std::regex_search(line, std::regex("^([^`]*`[^`]*`)*[^`]*`[^`]*-[^`]*`"))) << name << ": " << line;
      const std::string shown = std::regex_replace(line, std::regex("\\]\\([^)]*\\)"), "]");
      EXPECT_FALSE(std::regex_search(shown, std::regex("\\S{40}"))) << name << ": " << line;
    }
    EXPECT_FALSE(is_code) << name;
  }
}

// The check of the exhibit "An auxiliary loss per microbatch": the same batches in one and in eight microbatches.
TEST(ExhibitList, TheNumberOfMicrobatchesChangesTheWrongRunAlone) {
  const auto informations = [](int microbatches) {
    Lesson exhibit = find_lesson("aux-times-microbatches").lesson;
    for (RunConfig& run : exhibit.runs) run.data.microbatches = microbatches;
    exhibit.steps[0].tasks[0].until = 75;
    std::vector<double> values;
    for (const auto& [name, figure] : exhibit.steps[0].values)
      exhibit.steps[0].reveal += " " + name + "={" + name + "}";
    const LessonOutcome outcome = run_lesson(exhibit);
    for (const char* name : {" wrong=", " right="})
      values.push_back(std::stod(outcome.reveals[0].substr(outcome.reveals[0].find(name) + 7)));
    return values;
  };
  const std::vector<double> one = informations(1), eight = informations(8);
  EXPECT_NEAR(eight[1] / one[1], 1, 0.02);  // right
  EXPECT_LT(eight[0], 0.5 * one[0]);        // wrong
}
