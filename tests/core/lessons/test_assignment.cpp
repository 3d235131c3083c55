// Hand-ins that are right, wrong, damaged and forged are told apart; the kept solutions have full marks.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "core/files/text/words.h"
#include "core/files/whole_file.h"
#include "core/lessons/grading.h"
#include "core/lessons/lesson_figures.h"
#include "core/lessons/run_pool.h"
#include "core/recording/recording.h"
#include "tests/support/run_command.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

std::string with_student(std::string text, const std::string& from, const std::string& to) {
  return replaced(std::move(text), "\"" + from + "\"", "\"" + to + "\"");
}

std::string seed_line(const std::string& student) {
  return "seed = " + std::to_string(seed_of_student(student)) + "\n";
}

std::string solution(const char* name) {
  std::ifstream in(std::string(MOESCOPE_TEST_DATA) + "/solutions/" + name);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Returns a hand-in of problem set 1 whose run C has the settings of run B and whose run D has those of run A, so that
// two runs are trained for it.
std::string with_given_settings(const std::string& hand_in) {
  return replaced(replaced(hand_in, "router.bias_update_rate = 0.02", "router.bias_update_rate = 0.001"),
                  "router.aux_coeff = 0.03\nrouter.aux_mode = \"batch\"\n", "router.aux_mode = \"none\"\n");
}

// Returns a hand-in of problem set 1 with the right losses, whose runs C and D miss their aims.
std::string work_without_balance() {
  HandIn hand_in = parse_hand_in(with_given_settings(solution("1-router-of-your-own.toml")), "work").hand_in;
  hand_in.losses.clear();
  fill_in_losses(hand_in, find_assignment(hand_in.assignment, hand_in.seed).assignment);
  return to_toml(hand_in);
}

class Grading : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("moescope_grading_" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string file(const std::string& name, const std::string& text) {
    const std::string path = (folder_ / (name + ".toml")).string();
    write_whole_file(path, text);
    return path;
  }

  fs::path folder_;
};

// What grading must find: a problem of the whole hand-in that contains `problem`, or marks of which those whose names
// contain one of `lost` are 0, those of `halved` half and all others full.
struct Expected {
  std::string name, text, problem;
  std::vector<std::string> lost = {}, halved = {};
};

constexpr int kMarksOfSet1 = 18;

void expect_marks(const GradedHandIn& graded, const Expected& expected) {
  if (!expected.problem.empty()) {
    EXPECT_NE(graded.problem.find(expected.problem), std::string::npos) << graded.problem;
    EXPECT_EQ(graded.score(), 0);
    EXPECT_EQ(graded.max_score(), graded.assignment.empty() ? 0 : kMarksOfSet1);
    return;
  }
  for (const GradeMark& mark : graded.marks) {
    const auto is_among = [&](const std::vector<std::string>& parts) {
      return std::ranges::any_of(parts,
                                 [&](const std::string& part) { return mark.name.find(part) != std::string::npos; });
    };
    const double share = is_among(expected.lost) ? 0 : 1;
    EXPECT_EQ(mark.score, (is_among(expected.halved) ? 0.5 : share) * mark.max_score)
        << mark.name << ": " << mark.output;
  }
}

// All hand-ins are graded at once, so that their common runs are trained once.
TEST_F(Grading, RightWrongDamagedAndForgedHandInsAreToldApart) {
  const std::string right = solution("1-router-of-your-own.toml");
  const std::vector<std::string> student_figures = {"MaxVio (window) of run", "Mutual information of run",
                                                    "Largest minus smallest", "Aims of run", "Losses of the runs"};
  const std::vector<std::string> number_predictions = {"Prediction: Without balancing",
                                                       "Prediction: A loss of your own"};
  std::vector<Expected> hand_ins = {
      {"right", right, "", {}},
      {"right_set_2", solution("2-four-bits.toml"), "", {}},
      {"wrong_number", replaced(right, "information = ", "information = 1"), "", {"Mutual information of run A"}},
      {"wrong_predictions",
       replaced(replaced(right, "step_1 = ", "step_1 = 1"), "step_2 = 2", "step_2 = 1"),
       "",
       {},
       {"Prediction: Without balancing", "Prediction: The rate of DeepSeek-V3"}},
      {"no_prediction", replaced(right, "step_1 = ", "# step_1 = "), "", {"Prediction: Without balancing"}},
      {"unanswered", replaced(right, "spread = ", "# spread = "), "", {"Largest minus smallest"}},
      {"edited_loss", replaced(right, "C = \"", "C = \"0"), "", {"Losses of the runs", "Aims of run C"}},
      {"no_losses", right.substr(0, right.find("[losses]")), "", student_figures, number_predictions},
      {"other_config",
       replaced(right, "router.bias_update_rate = 0.02", "router.bias_update_rate = 0.001"),
       "",
       {"Losses of the runs", "Aims of run C"}},
      {"copied_hashes",
       replaced(with_student(with_given_settings(right), "solution", "bob"), seed_line("solution"), seed_line("bob")),
       "", student_figures, number_predictions},
      {"aim_missed", work_without_balance(), "", {"Aims of run C", "Aims of run D"}},
      {"other_seed", replaced(right, seed_line("solution"), "seed = 7\n"), "seed is 7; that of student solution is"},
      {"swapped_name", with_student(right, "solution", "carl"), "that of student carl is"},
      {"truncated", right.substr(0, right.find("losses]")), "truncated.toml"},
      {"cut_in_a_text", right.substr(0, right.size() - 5), "cut_in_a_text.toml"},
      {"huge_steps", "steps = 1000000000\n" + right, "steps"},
      {"path", replaced(right, "[settings.C]\n", "[settings.C]\ndata.path = \"/etc/passwd\"\n"),
       "data.path may not be set"},
      {"name_with_path", with_student(right, "solution", "../../solution"), "must have 1 to 64 letters"},
      {"huge_model", replaced(right, "[settings.C]\n", "[settings.C]\nmodel.dim = 8192\n"), "model.dim may not be set"},
      {"given_run", replaced(right, "[settings.C]", "[settings.A]\nrouter.bias_update_rate = 0.02\n[settings.C]"),
       "router.bias_update_rate may not be set"},
      {"not_a_number", replaced(right, "router.bias_update_rate = 0.02", "router.bias_update_rate = nan"),
       "bias_update_rate"},
      {"infinite_answer", replaced(right, "information = ", "information = inf # "),
       "answers.information: must be a number"},
      {"no_such_choice", replaced(right, "step_2 = ", "step_2 = 2.5 # "),
       "is 2.5; allowed: a whole number from 1 to 3"},
      {"negative_maxvio", replaced(right, "step_1 = ", "step_1 = -4 # "),
       "predictions.step_1 is -4; allowed: 0 or more"},
      {"no_such_set", replaced(right, "router-of-your-own", "../solutions/x"), "no such problem set"},
      {"no_such_setting", replaced(right, "[settings.C]\n", "[settings.C]\nrouter.luck = 1\n"), "no such setting"},
      {"empty", "", "problem_set"},
      {"garbage", std::string(2000, '\xff'), "garbage.toml"},
      {"too_large", right + std::string(1 << 17, '#'), "larger"},
  };
  std::vector<std::string> paths;
  for (const Expected& expected : hand_ins) paths.push_back(file(expected.name, expected.text));
  fs::last_write_time(paths.front(), fs::last_write_time(paths.back()) + std::chrono::hours(1));
  const std::vector<GradedHandIn> graded = grade(paths);
  for (std::size_t i = 0; i < hand_ins.size(); ++i) {
    SCOPED_TRACE(hand_ins[i].name);
    expect_marks(graded[i], hand_ins[i]);
  }
  EXPECT_EQ(graded.front().max_score(), kMarksOfSet1);
  const auto prediction = std::ranges::find(graded.front().marks, "Prediction: A loss of your own", &GradeMark::name);
  ASSERT_NE(prediction, graded.front().marks.end());
  EXPECT_TRUE(prediction->output.starts_with("made: ") && prediction->output.ends_with(", right"))
      << prediction->output;
  EXPECT_NE(graded.front().problem.find("several hand-ins"), std::string::npos);
  EXPECT_TRUE(graded.front().counts);
  EXPECT_EQ(std::ranges::count_if(graded, [](const auto& row) { return row.student == "solution" && row.counts; }), 2);
  EXPECT_EQ(graded[1].problem, "");
  const auto no_losses = std::ranges::find(hand_ins, "no_losses", &Expected::name) - hand_ins.begin();
  EXPECT_NE(graded[no_losses].problem.find("run A: not handed in; run B: not handed in"), std::string::npos);
  EXPECT_TRUE(graded[no_losses].marks.back().output.ends_with(": no marks; run D: not handed in"));
}

TEST_F(Grading, ResultsHaveGradescopeFormat) {
  const GradedHandIn graded{
      "a.toml", "set", "ada", {{"Run A: losses", 1, 1, "equal"}, {"Number", 0, 2, "answered \"3\"", "uneven"}}, ""};
  const auto json = nlohmann::json::parse(gradescope_json(graded));
  EXPECT_EQ(json["score"], 1);
  EXPECT_EQ(json["visibility"], "after_due_date");  // a student could hand in the right answers next
  ASSERT_EQ(json["tests"].size(), 2u);
  EXPECT_EQ(json["tests"][1],
            (nlohmann::json{{"name", "Number"}, {"score", 0.0}, {"max_score", 2.0}, {"output", "answered \"3\""}}));
  const std::vector<GradedHandIn> rows = {graded};
  const std::string csv = to_csv(marks_table(rows, true));
  EXPECT_NE(csv.find("problem,uneven\na.toml,ada,set,1,3,true,,0\n"), std::string::npos) << csv;
}

// The commands run as they stand in the form, for a few steps.
TEST_F(Grading, CommandsOfAFormRecordEveryFigureThatGradingReads) {
  constexpr int kSteps = 120;
  for (const std::string& name : assignment_names()) {
    SCOPED_TRACE(name);
    Assignment set = find_assignment(name, seed_of_student("ada")).assignment;
    std::istringstream form(hand_in_form(set, "ada"));
    const std::string steps = "--steps " + std::to_string(set.steps);
    std::vector<HistoryPtr> recorded(set.lesson.runs.size()), trained;
    RunPool pool(std::size_t{4} << 20);
    for (const RunConfig& run : set.lesson.runs) pool.add(run, kSteps);
    pool.train({});
    for (const RunConfig& run : set.lesson.runs) trained.push_back(pool.find(run, kSteps).history);
    for (std::string line; std::getline(form, line);) {
      if (!line.starts_with("#   moescope-cli train")) continue;
      const std::string command = replaced(line.substr(4), steps, "--steps " + std::to_string(kSteps));
      const Ended ended = run("cd " + folder_.string() + " && " + replaced(command, "moescope-cli", MOESCOPE_CLI));
      ASSERT_EQ(ended.status, 0) << command << '\n' << ended.output;
      const std::string file = line.substr(line.rfind(' ') + 1);
      recorded.at(file.front() - 'A') = RecordingReader((folder_ / file).string()).load(0);
    }
    ASSERT_EQ(std::ranges::count(recorded, nullptr), 0);
    LessonReader form_reader({}), grading_reader({});
    form_reader.set_histories(recorded);
    grading_reader.set_histories(trained);
    std::vector<LessonFigure> figures;
    for (const AssignmentNumber& number : set.numbers) figures.push_back(number.figure);
    for (const auto& [run, allowed] : set.may_set)
      for (const LessonCheck& aim : aims(set, run)) figures.push_back(aim.figure);
    for (const LessonFigure& figure : figures) {
      ASSERT_TRUE(grading_reader.read(figure)) << figure.key;
      EXPECT_EQ(form_reader.read(figure), grading_reader.read(figure)) << figure.key;
    }
  }
}

// A form stays TOML when the # of every setting is taken, tells all marks, and has neither the result of the set nor
// more on a setting than what it is, which would answer the predictions.
TEST(Assignment, AFormCanBeFilledInAndAnswersNothing) {
  for (const std::string& name : assignment_names()) {
    SCOPED_TRACE(name);
    const Assignment set = find_assignment(name, seed_of_student("ada")).assignment;
    const std::string form = hand_in_form(set, "ada");
    const std::string filled_form = std::regex_replace(form, std::regex("\n# (settings\\.[A-E]\\.)"), "\n$1");
    const ParsedHandIn filled = parse_hand_in(filled_form, "form");
    EXPECT_TRUE(filled.problems.empty()) << joined(filled.problems, "\n", &ConfigProblem::text);
    EXPECT_EQ(joined(hand_in_problems(filled.hand_in, set), "\n"), "");
    for (const auto& [run, settings] : set.may_set) {
      EXPECT_EQ(filled.hand_in.settings.at(run).size(), settings.size());
      for (const Setting& setting : settings) {
        const std::string& help = setting.field().help;
        const std::size_t more = help.find(". ");
        EXPECT_TRUE(more == std::string::npos || form.find(help.substr(more + 2, 20)) == std::string::npos) << help;
      }
    }
    EXPECT_EQ(form.find(set.lesson.teaches.substr(0, 30)), std::string::npos);
    std::int64_t marks = 1 + std::ssize(set.lesson.steps);  // of the runs and the predictions
    const std::string one_line = std::regex_replace(form, std::regex("\n# "), " ");
    const std::regex mark("; (\\d) marks?");
    for (std::sregex_iterator match(one_line.begin(), one_line.end(), mark), end; match != end; ++match)
      marks += std::stoi((*match)[1]);
    EXPECT_EQ(marks, max_marks(set));
    EXPECT_NE(form.find(std::to_string(marks) + " marks."), std::string::npos);
  }
}

TEST(Assignment, CapitalsAndBlanksOfANameDoNotMatter) {
  for (const char* typed : {"Ada Lovelace", " ada  lovelace ", "ADA-LOVELACE"}) {
    EXPECT_EQ(student_problem(typed), "");
    EXPECT_EQ(student_name(typed), "ada-lovelace");
    EXPECT_EQ(seed_of_student(typed), seed_of_student("ada-lovelace"));
    const Assignment set = find_assignment("1", seed_of_student(typed)).assignment;
    EXPECT_EQ(hand_in_form(set, typed), hand_in_form(set, "ada-lovelace"));
  }
  const std::string typed = replaced(solution("1-router-of-your-own.toml"), "\"solution\"", "\"Solution\"");
  EXPECT_EQ(parse_hand_in(typed, "file").hand_in.student, "solution");
}

TEST(Assignment, FormsAndHandInsAreReadBack) {
  EXPECT_EQ(assignment_names().size(), 2u);
  for (const std::string& name : assignment_names()) {
    SCOPED_TRACE(name);
    const ParsedAssignment parsed = find_assignment(name, seed_of_student("ada"));
    EXPECT_TRUE(parsed.problems.empty()) << joined(parsed.problems, "\n", &ConfigProblem::text);
    for (const RunConfig& run : parsed.assignment.lesson.runs) {
      EXPECT_TRUE(run.portable);
      EXPECT_EQ(run.seed, seed_of_student("ada"));
    }
    const std::string form = hand_in_form(parsed.assignment, "ada");
    ParsedHandIn unfilled = parse_hand_in(form, "form");
    EXPECT_TRUE(unfilled.problems.empty()) << joined(unfilled.problems, "\n", &ConfigProblem::text) << form;
    EXPECT_TRUE(hand_in_problems(unfilled.hand_in, parsed.assignment).empty());
    EXPECT_THROW(fill_in_losses(unfilled.hand_in, parsed.assignment), std::runtime_error);
    HandIn filled = unfilled.hand_in;
    filled.predictions[0] = 1.5;
    filled.answers["x"] = -2e-9;
    filled.losses[1] = "0123456789abcdef";
    const HandIn read_back = parse_hand_in(to_toml(filled), "file").hand_in;
    EXPECT_EQ(read_back.predictions, filled.predictions);
    EXPECT_EQ(read_back.answers, filled.answers);
    EXPECT_EQ(read_back.losses, filled.losses);
    EXPECT_EQ(read_back.seed, filled.seed);
  }
  EXPECT_NE(seed_of_student("ada"), seed_of_student("bob"));
}

// Every part of the form that the student left as it was is named, before a run is trained.
TEST(Assignment, AHandInWithoutAPartIsRefused) {
  const std::string right = solution("1-router-of-your-own.toml");
  const Assignment assignment = find_assignment("1", seed_of_student("solution")).assignment;
  const std::vector<std::pair<std::string, std::string>> parts = {{"step_2 = ", "predictions.step_2"},
                                                                  {"slow = ", "answers.slow"},
                                                                  {"router.bias_update_rate = ", "settings.C"},
                                                                  {"[settings.D]", "settings.D"}};
  for (const auto& [part, name] : parts) {
    std::string text = replaced(right, part, "# " + part);
    if (name == "settings.D") text = right.substr(0, right.find(part));
    HandIn hand_in = parse_hand_in(text, "form").hand_in;
    try {
      fill_in_losses(hand_in, assignment, {}, [] { return false; });
      ADD_FAILURE() << name;
    } catch (const std::runtime_error& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with(name + ' ')) << error.what();
    }
  }
}

TEST(RunPool, EqualRunsAreTrainedOnce) {
  const RunConfig config = find_assignment("1", 3).assignment.lesson.runs.front();
  RunConfig renamed = config;
  renamed.name = "other";
  RunPool pool(1 << 20);
  pool.add(config, 2);
  pool.add(renamed, 2);
  EXPECT_EQ(pool.size(), 1u);
  pool.train({});
  EXPECT_EQ(pool.find(renamed, 2).history, pool.find(config, 2).history);
  EXPECT_EQ(pool.find(config, 2).history->steps().size(), 2);
}

TEST(RunPool, StopsBeforeTheStepThatIsNoLongerWanted) {
  const RunConfig config = find_assignment("1", 3).assignment.lesson.runs.front();
  RunPool pool(1 << 20);
  pool.add(config, 1 << 30);
  std::atomic<int> calls{0};
  pool.train({}, [&] { return ++calls < 4; });
  EXPECT_EQ(calls, 4);
  const PooledRun& run = pool.find(config, 1 << 30);
  EXPECT_EQ(run.history, nullptr);
  EXPECT_FALSE(run.failed);
}

}  // namespace
}  // namespace moescope
