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
  EXPECT_EQ(lesson_names(),
            (std::vector<std::string>{"why-experts", "rich-get-richer", "bias-thermostat", "bias-or-loss",
                                      "domain-shift", "capacity", "who-pays", "mx-block", "outlier-channel",
                                      "precision-routing", "judge-recipe", "fp4-gemms"}));
}

// A step that asks a question has checks and a reveal that answer it. Every lesson asks at least twice.
TEST(LessonList, EveryStepThatAsksCanBeAnswered) {
  for (const std::string& name : lesson_names()) {
    const Lesson lesson = find_lesson(name).lesson;
    EXPECT_FALSE(lesson.group.empty() || lesson.subject.empty()) << name;
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

// The texts of a lesson or exhibit that a person reads.
std::vector<std::string> texts_of(const Lesson& lesson) {
  std::vector<std::string> texts{lesson.title, lesson.teaches};
  for (const LessonStep& step : lesson.steps) {
    texts.insert(texts.end(), {step.title, step.text, step.hint, step.reveal});
    for (const LessonCheck& check : step.checks) texts.push_back(check.text);
    if (!step.prediction) continue;
    texts.push_back(step.prediction->question);
    texts.insert(texts.end(), step.prediction->choices.begin(), step.prediction->choices.end());
  }
  return texts;
}

std::vector<Lesson> lessons_and_exhibits() {
  std::vector<Lesson> all;
  for (const auto& names : {lesson_names(), exhibit_names()})
    for (const std::string& name : names) all.push_back(find_lesson(name).lesson);
  return all;
}

TEST(LessonList, TheSpellingIsOne) {
  for (const Lesson& lesson : lessons_and_exhibits())
    for (const std::string& text : texts_of(lesson))
      for (const char* word : {"neighbor", "Neighbor", "favor ", "normalis", "specialis", "specializ", "stabilis"})
        EXPECT_EQ(text.find(word), std::string::npos) << lesson.name << ": " << text;
}

// A value in an explanation has its unit already.
TEST(LessonList, NoUnitStandsTwice) {
  for (const Lesson& lesson : lessons_and_exhibits())
    for (const LessonStep& step : lesson.steps)
      for (const auto& [name, figure] : step.values) {
        const std::string shown = figure_text(figure, 2), unit = find_lesson_figure(figure.key)->unit;
        if (unit.empty() || !shown.ends_with(unit)) continue;
        for (const char* end : {"} ", "}** "})
          EXPECT_EQ(step.reveal.find("{" + name + end + unit), std::string::npos) << lesson.name << ": " << step.title;
      }
}

// The last page of a lesson about routers has something to type in a training of one's own.
TEST(LessonList, TheEndHasSomethingToType) {
  for (const std::string& name : lesson_names()) {
    const Lesson lesson = find_lesson(name).lesson;
    if (lesson.group != "Router and balance" && lesson.group != "Ranks and costs") continue;
    const std::string& end = lesson.steps.back().reveal;
    const std::size_t mention = end.find("your own training");
    ASSERT_NE(mention, std::string::npos) << name;
    EXPECT_NE(end.find('`', end.rfind('\n', mention) + 1), std::string::npos) << name;
  }
}

// Every number of an explanation stands beside it with its name: it is a figure of a check, or that with which a check
// compares.
TEST(LessonList, NumbersOfAnExplanationAreOnThePage) {
  const auto without_factor = [](LessonFigure figure) {
    figure.times = 1;
    return figure;
  };
  for (const Lesson& lesson : lessons_and_exhibits())
    for (const LessonStep& step : lesson.steps) {
      std::vector<LessonFigure> shown;
      for (const LessonCheck& check : step.checks) {
        shown.push_back(without_factor(check.figure));
        for (const auto& bound : {check.above, check.below})
          if (bound && bound->figure) shown.push_back(without_factor(*bound->figure));
      }
      for (const auto& [name, figure] : step.values)
        EXPECT_NE(std::ranges::find(shown, figure), shown.end()) << lesson.name << ": " << step.title << ": " << name;
    }
}

// The card of the metric that curves show opens from a text before them. Links lead to cards, exhibits and web pages.
TEST(LessonList, MetricsHaveCardsThatOpenFromTheText) {
  const std::vector<std::string> exhibits = exhibit_names();
  for (const Lesson& lesson : lessons_and_exhibits()) {
    std::string texts;
    for (const LessonStep& step : lesson.steps) {
      texts += step.text;
      const std::string link = step.view.metric ? "](" + std::string(metric_info(*step.view.metric).key) + ")" : "";
      EXPECT_NE(texts.find(link), std::string::npos) << lesson.name << ": " << step.title;
    }
    for (const LessonStep& step : lesson.steps) texts += step.reveal;
    for (std::size_t at = texts.find("]("); at != std::string::npos; at = texts.find("](", at + 1)) {
      const std::string link = texts.substr(at + 2, texts.find(')', at) - at - 2);
      EXPECT_TRUE(find_metric(link) || std::ranges::count(exhibits, link) > 0 || link.starts_with("https://"))
          << lesson.name << ": " << link;
    }
  }
}

// On one page, a figure of a run has one value: MaxVio of the window, which is a mean already, is that of the last
// step, and all other figures without a stated range have the same number of last steps.
TEST(LessonList, AFigureHasOneWindowOnAPage) {
  for (const Lesson& lesson : lessons_and_exhibits())
    for (const LessonStep& step : lesson.steps) {
      std::vector<LessonFigure> figures;
      for (const auto& [name, figure] : step.values) figures.push_back(figure);
      for (const LessonCheck& check : step.checks) figures.push_back(check.figure);
      for (const LessonFigure& figure : figures) {
        const auto* run = std::get_if<RunFigure>(&figure.source);
        if (!run || run->from) continue;
        EXPECT_TRUE(figure.key != "max_vio_window" || run->last == 1) << lesson.name << ": " << step.title;
        for (const LessonFigure& other : figures) {
          const auto* one = std::get_if<RunFigure>(&other.source);
          if (!one || one->from || other.key != figure.key) continue;
          RunFigure same_steps = *one;
          same_steps.last = run->last;
          EXPECT_TRUE(same_steps != *run || one->last == run->last) << lesson.name << ": " << step.title;
        }
      }
    }
}

// Figures that a panel shows, and of which run.
struct Shown {
  std::vector<std::string> keys;
  int run = kAllRuns;
};

std::vector<Shown> shown_by(const LessonView& view, int selected) {
  std::vector<Shown> shown;
  for (const std::string& panel : view.panels) {
    if (panel == "dock_compare_loss") shown.push_back({{view.metric ? metric_info(*view.metric).key : "ce_loss"}});
    if (panel == "dock_compare_flips") shown.push_back({{"flip_rate"}});
    if (panel == "dock_router_balance") shown.push_back({{"max_vio", "max_vio_window", "cv"}});  // with other runs
    if (panel == "dock_router_bias") shown.push_back({{"bias_spread", "bias_change"}, selected});
    if (panel == "dock_router_load_over_time") shown.push_back({{"utilisation", "max_vio_window"}, selected});
    if (panel == "dock_a2a_matrix") shown.push_back({{"network_saved"}, selected});
    if (panel == "dock_cluster_layers" && view.choice == "time by imbalance")
      shown.push_back({{"measured_deep_ep_ms", "modelled_deep_ep_ms"}});
    else if (panel == "dock_cluster_layers")
      shown.push_back({{"measured_gain"}});
  }
  return shown;
}

// Runs and steps that exist when the tasks of a step are done; `training` counts the tasks that start new runs.
struct Trained {
  int training = 0, runs = 0, selected = 0;
  std::int64_t steps = 0;
};

Trained after(const LessonStep& step, Trained trained) {
  if (step.view.run) trained.selected = *step.view.run;
  for (const LessonTask& task : step.tasks) {
    if (task.kind == LessonTask::Kind::start)
      trained = {trained.training + 1, to_int(task.start.size()), trained.selected, 0};
    if (task.kind == LessonTask::Kind::twin) ++trained.runs;
    if (task.kind == LessonTask::Kind::run_until) trained.steps = task.until;
  }
  return trained;
}

// True if a figure that is asked for later was complete in an earlier step, in a panel that shows it. The curves are
// means over the layers.
bool was_shown(const LessonFigure& figure, const std::vector<Shown>& shown, const Trained& earlier,
               const Trained& later) {
  const auto* run = std::get_if<RunFigure>(&figure.source);
  if (run && (earlier.training != later.training || earlier.steps != later.steps || run->run >= earlier.runs ||
              run->layer.rule == LessonPick::Of::one))
    return false;
  return std::ranges::any_of(shown, [&](const Shown& panel) {
    const bool has_run = !run || panel.run == kAllRuns || panel.run == run->run;
    return has_run && std::ranges::count(panel.keys, figure.key) > 0;
  });
}

// True if a step states a figure of the same run, or the same measurement; a later question may build on it.
bool states(const LessonStep& step, const LessonFigure& figure) {
  const auto* run = std::get_if<RunFigure>(&figure.source);
  return std::ranges::any_of(step.checks, [&](const LessonCheck& check) {
    const auto* stated = std::get_if<RunFigure>(&check.figure.source);
    return check.figure.key == figure.key &&
           (run && stated ? stated->run == run->run : check.figure.source == figure.source);
  });
}

TEST(LessonList, NoPanelOfAnEarlierStepAnswersALaterQuestion) {
  for (const Lesson& lesson : lessons_and_exhibits()) {
    std::vector<Trained> trained{{0, to_int(lesson.runs.size())}};
    for (const LessonStep& step : lesson.steps) trained.push_back(after(step, trained.back()));
    for (std::size_t later = 1; later < lesson.steps.size(); ++later) {
      if (!lesson.steps[later].prediction) continue;
      for (std::size_t earlier = 0; earlier < later; ++earlier) {
        const LessonStep& step = lesson.steps[earlier];
        const std::vector<Shown> shown = shown_by(step.view, trained[earlier + 1].selected);
        for (const LessonCheck& check : lesson.steps[later].checks)
          EXPECT_FALSE(!states(step, check.figure) &&
                       was_shown(check.figure, shown, trained[earlier + 1], trained[later + 1]))
              << lesson.name << ", step " << earlier + 1 << " shows what step " << later + 1 << " asks: " << check.text;
      }
    }
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
