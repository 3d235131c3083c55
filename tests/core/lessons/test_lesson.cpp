// The lesson file's errors, its figures on made-up histories, and the sample tensors.
#include <gtest/gtest.h>

#include <cmath>

#include "core/config/config_check.h"
#include "core/lessons/lesson.h"
#include "core/lessons/lesson_figures.h"
#include "core/lessons/lesson_twins.h"

using namespace moescope;

namespace {

constexpr const char* kGood = R"(title = "T"
teaches = "t"
[runs]
preset = "nano"
[[runs.run]]
name = "twin"
seed_is = "not a key"
[[step]]
title = "s"
text = "x"
)";

std::string problems_of(const std::string& text) {
  std::string all;
  for (const ConfigProblem& problem : parse_lesson(text, "my.toml").problems) all += problem.text() + "\n";
  return all;
}

const std::string kHead = "title = \"T\"\nteaches = \"t\"\n[runs]\npreset = \"nano\"\n";
const std::string kStep = "[[step]]\ntitle = \"s\"\ntext = \"x\"\n";

// Four steps with loads of 3:1 and 1:3 by turns on two experts; ce_loss is the number of the step.
std::shared_ptr<History> swinging_history() {
  RunInfo info;
  info.n_layers = 2;
  info.moe_layers = {1};
  info.n_experts = 2;
  info.top_k = 1;
  info.tokens_per_step = 4;
  auto history = std::make_shared<History>(info);
  for (int step = 0; step < 4; ++step) {
    auto frame = std::make_shared<TelemetryFrame>();
    frame->step = step;
    frame->ce_loss = static_cast<float>(step);
    RouterFrame router;
    router.layer = 1;
    router.tokens_per_expert = step % 2 == 0 ? std::vector<std::uint32_t>{3, 1} : std::vector<std::uint32_t>{1, 3};
    router.expert_bias = {0.25f, -0.25f};
    router.max_vio = 0.5f;
    router.volume = {
        .ranks = 2, .ranks_per_node = 2, .copies_RR = {2, 0, 1, 1}, .distinct_RR = {1, 0, 1, 1}, .nodes_RN = {2, 2}};
    frame->routers.push_back(router);
    history->append(std::shared_ptr<const TelemetryFrame>(frame));
  }
  return history;
}

RunFigure& run_figure(LessonFigure& figure) {
  return std::get<RunFigure>(figure.source);
}
LessonFigure figure(const char* key, std::int64_t last) {
  LessonFigure f;
  f.key = key;
  run_figure(f).last = last;
  return f;
}

}  // namespace

TEST(LessonFile, UnknownKeysNameLineAndAllowedKeys) {
  const std::string found = problems_of(kGood);
  EXPECT_NE(found.find("my.toml:7: runs.run 1.seed_is: no such key; allowed: name, set"), std::string::npos) << found;
}

TEST(LessonFile, SettingsAreCheckedWithTheConfigsOwnRules) {
  EXPECT_NE(problems_of(kHead + "set = { router.top_k = 99 }\n" + kStep).find("my.toml:5: runs.set.router.top_k"),
            std::string::npos);
  EXPECT_NE(problems_of(kHead + "set = { router.topk = 2 }\n" + kStep).find("did you mean router.top_k?"),
            std::string::npos);
  EXPECT_NE(problems_of(kHead + "set = { router.top_k = 9 }\n" + kStep).find("top_k"), std::string::npos);
  EXPECT_NE(problems_of(kHead + kStep + "[[step.do]]\nset = { model.dim = 64 }\n").find("cannot be changed while"),
            std::string::npos);
}

TEST(LessonFile, WrongTypesAndMissingPartsAreNamed) {
  EXPECT_NE(problems_of("title = 3\n").find("my.toml:1: title: must be text"), std::string::npos);
  EXPECT_NE(problems_of("title = \"x\"\n").find("needs [runs] to train or a [[tensor]]"), std::string::npos);
  EXPECT_NE(problems_of("title = [").find("my.toml:1"), std::string::npos);
  EXPECT_NE(
      problems_of(kHead + kStep + "[[step.check]]\ntext = \"c\"\nfigure = \"vio\"\nabove = 1\n").find("no figure vio"),
      std::string::npos);
  EXPECT_NE(
      problems_of(kHead + kStep + "[[step.check]]\ntext = \"c\"\nfigure = \"max_vio\"\n").find("needs above, below"),
      std::string::npos);
  EXPECT_NE(problems_of(kHead + kStep + "[[step.do]]\n").find("needs one of start, run_until"), std::string::npos);
  EXPECT_NE(problems_of(kHead + kStep + "[step.predict]\nquestion = \"q\"\nchoices = [\"a\", \"b\"]\n").find("right"),
            std::string::npos);
  EXPECT_NE(problems_of(kHead + kStep + "[step.predict]\nquestion = \"q\"\nnumber = { figure = \"max_vio\" }\n")
                .find("within: is missing"),
            std::string::npos);
}

TEST(LessonFile, AnotherSeedKeepsTheDistanceBetweenRuns) {
  const std::string text = kHead + "[[runs.run]]\nname = \"n\"\nset = { seed = 5 }\n" + kStep;
  const Lesson lesson = parse_lesson(text, "x.toml", 11).lesson;
  ASSERT_EQ(lesson.runs.size(), 2u);
  EXPECT_EQ(lesson.runs[0].seed, 11);
  EXPECT_EQ(lesson.runs[1].seed, 15);
}

TEST(LessonFile, UnknownLessonsAreAnsweredWithTheList) {
  const ParsedLesson parsed = find_lesson("nonsense");
  ASSERT_EQ(parsed.problems.size(), 1u);
  EXPECT_NE(parsed.problems[0].message.find("bias-thermostat"), std::string::npos);
  EXPECT_FALSE(find_lesson("/no/such/file.toml").problems.empty());
}

TEST(LessonFile, ASettingIsForTheRunThatItNamesOrForAll) {
  const auto task = [](const std::string& run) {
    const std::string twins = "[[runs.run]]\nname = \"b\"\n[[runs.run]]\nname = \"c\"\n";
    const std::string text =
        kHead + twins + kStep + "[[step.do]]\n" + run + "set = { router.pinned_bias = \"*:0=1\" }\n";
    const ParsedLesson parsed = parse_lesson(text, "x.toml");
    EXPECT_TRUE(parsed.problems.empty());
    return parsed.lesson.steps.at(0).tasks.at(0);
  };
  EXPECT_EQ(task("").run, 0);
  EXPECT_EQ(task("run = \"C\"\n").run, 2);
  EXPECT_EQ(task("run = \"all\"\n").run, kAllRuns);
  EXPECT_EQ(task("run = \"all\"\n").text, "All runs: set router.pinned_bias = *:0=1");
}

TEST(LessonFile, NamesOnlyRunsThatAreOpen) {
  const std::string pinned = "set = { router.pinned_bias = \"*:0=1\" }\n";
  const std::string in_c = "[[step.do]]\nrun = \"C\"\n" + pinned;
  const std::string two = kHead + "[[runs.run]]\nname = \"b\"\n" + kStep;
  EXPECT_NE(problems_of(two + in_c).find("there is no run C: the number of runs is 2"), std::string::npos);
  const std::string one_more = "[[step.do]]\nname = \"c\"\ntwin = { seed = 9 }\n";
  EXPECT_EQ(problems_of(two + one_more + in_c).find("there is no run"), std::string::npos);
  EXPECT_NE(problems_of(two + "[[step.check]]\ntext = \"c\"\nfigure = \"ce_loss\"\nrun = \"D\"\nabove = 1\n")
                .find("there is no run D"),
            std::string::npos);
  EXPECT_NE(problems_of(two + one_more + one_more + one_more + one_more).find("at most 5 runs"), std::string::npos);
}

namespace {

const std::string kTrain = kStep + "[[step.do]]\nrun_until = 10\n";

std::string twin(const std::string& settings) {
  return "[[runs.run]]\nname = \"twin\"\nset = { " + settings + " }\n";
}

// Returns a check that B's loss is below the loss of `run`.
std::string comparison_with(const std::string& run) {
  return "[[step.check]]\ntext = \"c\"\nfigure = \"ce_loss\"\nrun = \"B\"\nbelow = { figure = \"ce_loss\", run = \"" +
         run + "\" }\n";
}

std::vector<std::string> unclear(const std::string& text) {
  const ParsedLesson parsed = parse_lesson(text, "x.toml");
  EXPECT_TRUE(parsed.problems.empty()) << parsed.problems.front().text();
  return unclear_comparisons(parsed.lesson);
}

}  // namespace

TEST(LessonTwins, DifferInOneSetting) {
  EXPECT_TRUE(unclear(kHead + twin("router.top_k = 1") + kTrain).empty());
  EXPECT_TRUE(unclear(kHead + twin("seed = 2") + kTrain).empty());
  EXPECT_TRUE(unclear(kHead + "[[runs.run]]\nname = \"same\"\n" + kTrain).empty());
  EXPECT_EQ(unclear(kHead + twin("router.top_k = 1, router.score_func = \"softmax\"") + kTrain),
            std::vector<std::string>{"\"s\": B differs from every earlier run in more than one setting: router.top_k, "
                                     "router.score_func"});
}

// B and C change one setting each, D changes both: D differs from B and from C in one setting, and from A in two.
TEST(LessonTwins, MayFollowFromAnotherTwin) {
  const std::string runs = kHead + twin("router.top_k = 1") + twin("router.score_func = \"softmax\"") +
                           twin("router.top_k = 1, router.score_func = \"softmax\"") + kTrain;
  EXPECT_TRUE(unclear(runs).empty());
  EXPECT_TRUE(unclear(runs + comparison_with("A") + comparison_with("D")).empty());
  const auto found = unclear(runs + comparison_with("C"));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0], "\"s\", \"c\": B and C differ in 2 settings: router.top_k, router.score_func");
}

// An auxiliary loss in place of the bias rule is one change, although it sets several keys. An auxiliary loss beside
// the bias rule, or with another scope and coefficient, is two changes.
TEST(LessonTwins, ARecipeOfSeveralSettingsIsOneThing) {
  const std::string aux = "router.aux_mode = \"batch\", router.aux_coeff = 0.1";
  const std::string bias = "router.bias_update_rate = 0";
  EXPECT_TRUE(unclear(kHead + twin(aux + ", " + bias) + kTrain).empty());
  EXPECT_EQ(unclear(kHead + twin(aux) + kTrain).size(), 1u);  // the bias rule stays on
  EXPECT_EQ(unclear(kHead + twin(aux + ", " + bias + ", router.top_k = 1") + kTrain).size(), 1u);
  const std::string other = "set = { " + bias + ", " + aux + " }\n";
  EXPECT_TRUE(unclear(kHead + other + twin("router.aux_mode = \"sequence\"") + kTrain).empty());
  EXPECT_EQ(unclear(kHead + other + twin("router.aux_mode = \"sequence\", router.aux_coeff = 1") + kTrain).size(), 1u);
  EXPECT_TRUE(unclear(kHead + twin("router.n_groups = 4, router.n_limited_groups = 2") + kTrain).empty());
  EXPECT_EQ(unclear(kHead + "set = { router.n_groups = 4, router.n_limited_groups = 2 }\n" +
                    twin("router.n_groups = 2, router.n_limited_groups = 1") + kTrain)
                .size(),
            1u);
}

TEST(LessonTwins, LiveChangesAreJudged) {
  const std::string start = kHead + twin("router.top_k = 1") + kStep;
  const auto set = [](const std::string& run, const std::string& setting) {
    return "[[step.do]]\nrun = \"" + run + "\"\nset = { " + setting + " }\n";
  };
  const std::string rate = "router.bias_update_rate = 0.1", train = "[[step.do]]\nrun_until = 10\n";
  EXPECT_EQ(unclear(start + set("A", rate) + train).size(), 1u);
  EXPECT_TRUE(unclear(start + set("all", rate) + train).empty());
  EXPECT_TRUE(unclear(start + set("B", rate) + set("A", rate) + train).empty());
  EXPECT_TRUE(unclear(start + set("A", "data.mixture = \"DNA=1\"") + train).empty());  // all read the same batches
  EXPECT_TRUE(unclear(start + set("A", rate)).empty());                                // no run trains with it
  const std::string twin_of_a = "[[step.do]]\nname = \"x\"\ntwin = { router.top_k = 4 }\n";
  EXPECT_TRUE(unclear(start + twin_of_a + train).empty());
  EXPECT_EQ(unclear(start + set("A", rate) + twin_of_a + set("A", "router.z_coeff = 0.1") + train).size(), 2u);
  const std::string anew =
      "[[step.do]]\n[step.do.start]\npreset = \"nano\"\n[[step.do.start.run]]\nname = \"t\"\nset = { ";
  EXPECT_TRUE(unclear(start + anew + "router.top_k = 3 }\n" + train).empty());
  EXPECT_EQ(unclear(start + anew + "router.top_k = 3, router.z_coeff = 0.1 }\n" + train).size(), 1u);
}

TEST(LessonFigures, RangeOfStepsIsRead) {
  LessonReader reader({});
  reader.set_histories({swinging_history()});
  EXPECT_DOUBLE_EQ(*reader.read(figure("ce_loss", 2)), 2.5);
  EXPECT_FALSE(reader.read(figure("ce_loss", 5)));  // not that many steps yet
  LessonFigure early = figure("ce_loss", 1);
  run_figure(early).from = 0;
  run_figure(early).to = 1;
  EXPECT_DOUBLE_EQ(*reader.read(early), 0.5);
  run_figure(early).to = 4;
  EXPECT_FALSE(reader.read(early));
  LessonFigure before_last = figure("ce_loss", 2);
  run_figure(before_last).until = 1;
  EXPECT_DOUBLE_EQ(*reader.read(before_last), 0.5);
}

// The figures of a step stay those of the steps that it trains if the training goes on.
TEST(LessonFigures, TheLastStepsAreThoseOfTheTask) {
  const LessonStep step = find_lesson("one-expert").lesson.steps[0];
  for (const auto& [name, figure] : step.values) EXPECT_EQ(std::get<RunFigure>(figure.source).until, 199) << name;
}

TEST(LessonFigures, LoadThatSwingsCorrelatesNegativelyAndIsEvenInSum) {
  LessonReader reader({});
  reader.set_histories({swinging_history()});
  EXPECT_DOUBLE_EQ(*reader.read(figure("utilisation", 1)), 1.5);
  EXPECT_DOUBLE_EQ(*reader.read(figure("utilisation", 4)), 1.0);
  EXPECT_NEAR(*reader.read(figure("load_correlation", 4)), -1, 1e-12);
  LessonFigure lag2 = figure("load_correlation", 4);
  run_figure(lag2).lag = 2;
  EXPECT_NEAR(*reader.read(lag2), 1, 1e-12);
  EXPECT_DOUBLE_EQ(*reader.read(figure("bias_spread", 1)), 0.5);
}

TEST(LessonFigures, VolumesPerTokenAndTheFullestRank) {
  LessonReader reader({});
  reader.set_histories({swinging_history()});
  EXPECT_DOUBLE_EQ(*reader.read(figure("ranks_per_token", 2)), 0.75);
  EXPECT_DOUBLE_EQ(*reader.read(figure("rank_max_over_mean", 2)), 1.5);  // column 0 gets 3 of 4 copies
}

// Two heavy experts share a rank. Two nodes of one rank: of 4 copies between them, DeepEP sends 3.
TEST(LessonFigures, LoadsOfRanksAndExperts) {
  RunInfo info;
  info.n_layers = 2;
  info.moe_layers = {1};
  info.n_experts = 4;
  info.top_k = 1;
  info.tokens_per_step = 8;
  info.domains = {"a", "b"};
  auto history = std::make_shared<History>(info);
  for (int step = 0; step < 3; ++step) {
    auto frame = std::make_shared<TelemetryFrame>();
    frame->step = step;
    RouterFrame router;
    router.layer = 1;
    router.tokens_per_expert = {3, 3, 1, 1};  // experts 0 and 1 are on one rank
    router.volume = {.ranks = 2,
                     .ranks_per_node = 1,
                     .copies_RR = {3, 1, 3, 1},
                     .distinct_RR = {2, 1, 2, 1},
                     .nodes_RN = {2, 1, 2, 1}};
    frame->routers.push_back(router);
    SpecialisationFrame specialisation;
    specialisation.layer = 1;
    specialisation.domain_DE = {3, 1, 0, 0, 0, 2, 1, 1};
    specialisation.together_EE.resize(16);
    specialisation.byte_256E.resize(1024);
    frame->specialisation.push_back(specialisation);
    history->append(std::shared_ptr<const TelemetryFrame>(frame));
  }
  LessonReader reader({});
  reader.set_histories({history});
  EXPECT_DOUBLE_EQ(*reader.read(figure("rank_max_over_mean", 1)), 1.5);
  EXPECT_DOUBLE_EQ(*reader.read(figure("network_saved", 1)), 0.25);
  // H(expert) - H(expert | domain), by hand.
  const double expert_entropy = -2 * (3. / 8) * std::log(3. / 8) - 2 * (1. / 8) * std::log(1. / 8);
  const double conditional_entropy = 0.5 * (-.75 * std::log(.75) - .25 * std::log(.25) + 1.5 * std::log(2.));
  EXPECT_NEAR(*reader.read(figure("domain_information", 1)), expert_entropy - conditional_entropy, 1e-12);
}

TEST(LessonFigures, RecoveryCountsFromTheNewestChange) {
  auto history = swinging_history();
  for (int step = 4; step < 40; ++step) {
    auto frame = std::make_shared<TelemetryFrame>();
    frame->step = step;
    frame->ce_loss = step < 20 ? 2.0f : 0.0f;
    history->append(std::shared_ptr<const TelemetryFrame>(frame));
  }
  history->append(Marker{0, 10, "change", "x"});
  LessonReader reader({});
  reader.set_histories({history});
  LessonFigure recovery = figure("steps_until", 1);
  run_figure(recovery).argument = "ce_loss";
  run_figure(recovery).limit = 1.05;
  EXPECT_DOUBLE_EQ(*reader.read(recovery), 15);  // five losses of the steps 15 to 24 are 2 and five are 0
  run_figure(recovery).limit = -1;
  LessonCheck check;
  check.figure = recovery;
  EXPECT_EQ(reader.judge(check).text, "not yet");
}

TEST(LessonFigures, ANoteComparesInWords) {
  auto a = swinging_history(), b = swinging_history();
  LessonReader reader({});
  reader.set_histories({a, b});
  LessonCheck check;
  check.figure = figure("max_vio", 1);
  check.above = LessonCheck::Bound{0, figure("max_vio", 1)};
  check.above->figure->times = 0.5;
  run_figure(*check.above->figure).run = 1;
  EXPECT_EQ(reader.judge(check).note, "the same as in run B: 0.500");
  run_figure(*check.above->figure).run = 0;
  run_figure(*check.above->figure).from = 0;
  run_figure(*check.above->figure).to = 3;
  EXPECT_EQ(reader.judge(check).note, "the same as in steps 0 to 3: 0.500");
  run_figure(*check.above->figure).layer = {LessonPick::Of::one, 1};
  EXPECT_EQ(reader.judge(check).note, "the same as in layer 1, steps 0 to 3: 0.500");
  run_figure(*check.above->figure).layer = {};
  run_figure(*check.above->figure).expert = {LessonPick::Of::one, 0};
  EXPECT_EQ(reader.judge(check).note, "the same as in expert 0, steps 0 to 3: 0.500");
}

// 7280 / 3200 is halfway between 2.27 and 2.28; as a float, which the maps have, it is 2.28.
TEST(LessonFigures, AValueHalfwayIsRoundedAsInThePanels) {
  EXPECT_EQ(figure_text(figure("utilisation", 1), 2.275), "2.28x");
}

// 0.0151 / 0.00189 is 8.0; with two digits it would be 7.9.
TEST(LessonFigures, SmallValuesHaveThreeDigits) {
  EXPECT_EQ(figure_text(figure("expert_gradient", 1), 0.01512), "0.0151");
  EXPECT_EQ(figure_text(figure("expert_gradient", 1), 0.00189), "0.00189");
  EXPECT_EQ(figure_text(figure("max_vio", 1), 0), "0");
  EXPECT_EQ(figure_text(figure("utilisation", 1), 0.0247), "0.025x");  // as in the bars of the panel
}

TEST(LessonFigures, ChecksArePendingHoldOrFail) {
  LessonReader reader({});
  LessonCheck check;
  check.figure = figure("max_vio", 2);
  check.below = LessonCheck::Bound{1.0, {}};
  EXPECT_EQ(reader.judge(check).state, LessonJudgement::State::pending);
  reader.set_histories({swinging_history()});
  EXPECT_EQ(reader.judge(check).state, LessonJudgement::State::holds);
  EXPECT_EQ(reader.judge(check).note, "");
  check.below = LessonCheck::Bound{0, figure("max_vio", 1)};
  check.below->figure->times = 0.5;
  EXPECT_EQ(reader.judge(check).state, LessonJudgement::State::fails);
  EXPECT_EQ(reader.judge(check).text, "0.500");
  EXPECT_EQ(reader.judge(check).note, "the same as in the last step: 0.500; not as expected: below 0.250");
}

TEST(LessonTensors, AreTheSameEveryTimeAndHaveTheirOutlierColumn) {
  LessonTensor tensor;
  tensor.name = "t";
  tensor.outlier_column = 3;
  tensor.outlier_factor = 300;
  const std::vector<float> values = make_tensor(tensor);
  EXPECT_EQ(values, make_tensor(tensor));
  double outlier = 0, normal = 0;
  for (int r = 0; r < tensor.rows; ++r) {
    outlier += std::pow(values[static_cast<std::size_t>(r * tensor.cols + 3)], 2);
    normal += std::pow(values[static_cast<std::size_t>(r * tensor.cols + 4)], 2);
  }
  EXPECT_NEAR(std::sqrt(outlier / normal), 300, 60);
}
