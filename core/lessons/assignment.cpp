#include "core/lessons/assignment.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>
#include <sstream>
#include <tuple>

#include "core/config/config_difference.h"
#include "core/config/config_rules.h"
#include "core/config/config_toml.h"
#include "core/files/assets.h"
#include "core/files/text/words.h"
#include "core/lessons/digest.h"
#include "core/lessons/lesson_figures.h"
#include "core/lessons/toml_runs.h"
#include "core/training/engine/lock_step.h"
#include "core/training/run_cost.h"

namespace moescope {
namespace {

constexpr std::string_view kAssignments = "assignments/", kUnanswered = "?";
constexpr std::size_t kMaxHandInBytes = std::size_t{64} << 10;
constexpr int kMaxQuestions = 100;  // steps of a problem set
constexpr double kMaxCost = 4;      // of a run with the student's settings over that of the set's run

AssignmentNumber read_asked_number(TomlSection& section, const Lesson& lesson) {
  AssignmentNumber number;
  number.value = section.required_text("value");
  number.question = section.required_text("question");
  number.within = section.number("within", 0.02, 0, 1);
  number.marks = to_int(section.integer("marks", 1, 1, 100));
  for (std::size_t step = 0; step < lesson.steps.size(); ++step)
    for (const auto& [value, figure] : lesson.steps[step].values)
      if (value == number.value) std::tie(number.step, number.figure) = std::pair(step, figure);
  if (number.figure.key.empty()) section.problem("value", "no [step.values] defines " + number.value);
  return number;
}

void read_own_run(TomlSection& section, Assignment& assignment) {
  const int run = read_run(section, "run", 0, assignment.lesson.runs.size());
  for (const std::string& key : section.texts("may_set"))
    if (const ConfigField* field = find_field(key))
      assignment.may_set[run].push_back(*field);
    else
      section.problem("may_set", "no such setting: " + key);
  section.require("may_set");
}

std::string step_key(int step) {
  return fmt::format("step_{}", step + 1);
}

// Returns a number that the student fills in; nullopt if it is still open, or a problem.
std::optional<double> read_number(const std::string& path, const toml::node& node, TomlProblems& problems) {
  const auto* text = node.as_string();
  const std::optional<double> number = node.is_number() ? node.value<double>() : std::nullopt;
  if (number && std::isfinite(*number)) return number;
  if (!text || text->get() != kUnanswered) problems.add(line_of(node), path, "must be a number");
  return std::nullopt;
}

HandIn read_hand_in(TomlSection& root) {
  HandIn hand_in;
  TomlProblems& problems = root.problems();
  hand_in.assignment = root.required_text("problem_set");
  hand_in.student = root.required_text("student");
  if (const std::string problem = student_problem(hand_in.student); !problem.empty()) root.problem("student", problem);
  hand_in.student = student_name(hand_in.student);
  hand_in.seed = root.integer("seed", 0, 0, std::int64_t{1} << 40);
  root.require("seed");
  root.inside("predictions", [&](TomlSection& section) {
    for (int step = 0; step < kMaxQuestions; ++step)
      if (const toml::node* node = section.node(step_key(step)))
        if (const auto number = read_number(section.path(step_key(step)), *node, problems))
          hand_in.predictions[step] = *number;
  });
  if (const toml::table* answers = root.table("answers"))
    for (const auto& [key, node] : *answers)
      if (const auto number = read_number("answers." + std::string(key.str()), node, problems))
        hand_in.answers[std::string(key.str())] = *number;
  const auto for_each_run = [&](const char* table, const std::function<void(TomlSection&, int, std::string)>& take) {
    root.inside(table, [&](TomlSection& section) {
      for (int run = 0; run < kMaxRuns; ++run)
        if (const std::string letter(1, run_letter(run)); section.has(letter)) take(section, run, letter);
    });
  };
  for_each_run("settings", [&](TomlSection& section, int run, const std::string& letter) {
    hand_in.settings[run] = settings_of(section, false, letter);
  });
  for_each_run("losses", [&](TomlSection& section, int run, const std::string& letter) {
    hand_in.losses[run] = section.required_text(letter);
  });
  return hand_in;
}

// Returns why a run may not have these settings; empty if it may.
std::string settings_problem(const std::vector<LessonSetting>& settings, const std::vector<Setting>& allowed,
                             const RunConfig& base) {
  RunConfig config = base;
  for (const auto& [setting, value] : settings) {
    if (std::ranges::find(allowed, setting) == allowed.end())
      return setting.key() +
             " may not be set; allowed: " + (allowed.empty() ? "none" : joined(allowed, ", ", &Setting::key));
    setting.field().set(config, value);
  }
  if (const std::string problem = first_problem(config); !problem.empty()) return problem;
  const double cost = run_cost(config).flops_per_step / run_cost(base).flops_per_step;
  return cost <= kMaxCost ? ""
                          : fmt::format("a step would take {:.3g} times the work of the run in the set; at most {:g}",
                                        cost, kMaxCost);
}

std::string prediction_problem(const LessonPrediction& prediction, double made) {
  const auto choices = static_cast<double>(prediction.choices.size());
  if (!prediction.number && made >= 1 && made <= choices && made == std::floor(made)) return {};
  if (!prediction.number) return fmt::format("is {:g}; allowed: a whole number from 1 to {:g}", made, choices);
  const bool may_be_negative = std::string_view(find_lesson_figure(prediction.number->key)->unit) == "dB";
  return made >= 0 || may_be_negative ? "" : fmt::format("is {:g}; allowed: 0 or more", made);
}

std::string head_of_hand_in(const std::string& assignment, const std::string& student, std::int64_t seed) {
  return fmt::format("problem_set = \"{}\"\nstudent = \"{}\"\nseed = {}\n", assignment, student, seed);
}

// Returns the options by which moescope-cli trains a run of the set. Measurements that it leaves out cost time alone.
std::string train_options(const Assignment& assignment, const RunConfig& config) {
  std::string options =
      fmt::format(" --preset {} --steps {} --portable --seed {}", assignment.preset, assignment.steps, config.seed);
  RunConfig base = load_preset(assignment.preset).config;
  base.portable = config.portable;
  base.seed = config.seed;
  for (const ConfigDifference& changed : difference(base, config))
    if (!changed.setting.is_in<TelemetryConfig>() || changed.b != "0")
      options += " --set " + changed.setting.key() + '=' + changed.b;
  return options + " --set name=" + config.name;
}

std::string prediction_form(const LessonPrediction& prediction, int step) {
  std::string text = '\n' + toml_comment(prediction.question);
  for (std::size_t i = 0; i < prediction.choices.size(); ++i)
    text += toml_comment(fmt::format("  {}: {}", i + 1, prediction.choices[i]));
  if (prediction.number)
    text += toml_comment(fmt::format("  Right: at most {:g} from what is measured", prediction.within));
  return text + "predictions." + step_key(step) + " = \"?\"\n";
}

std::string own_run_form(const Assignment& assignment, int run) {
  const std::vector<LessonCheck> reached = aims(assignment, run);
  std::string text =
      fmt::format("\n# Your settings of run {}: take the # from a line; {} marks if it reaches all of this:\n",
                  run_letter(run), kCheckMarks * reached.size());
  for (const LessonCheck& aim : reached) text += toml_comment("- " + aim.text);
  for (const Setting& setting : assignment.may_set.at(run)) {
    const ConfigField& field = setting.field();
    text += '\n' + toml_comment(field.help.substr(0, field.help.find(". "))) +  // later sentences answer predictions
            fmt::format("# settings.{}.{} = {}    # {}\n", run_letter(run), setting.key(),
                        toml_value(field.get(assignment.lesson.runs[run])), allowed_text(field));
  }
  return text;
}

std::string answer_form(const AssignmentNumber& number) {
  return '\n' +
         toml_comment(fmt::format("{}; may differ by {:g} % of its value; {}", number.question, 100 * number.within,
                                  counted(number.marks, "mark", "marks"))) +
         "answers." + number.value + " = \"?\"\n";
}

std::set<int> runs_of(const LessonStep& step) {
  std::set<int> runs;
  if (step.prediction && step.prediction->number) runs.insert(step.prediction->number->run());
  for (const LessonCheck& check : step.checks) runs.insert(check.figure.run());
  for (const auto& [name, figure] : step.values) runs.insert(figure.run());
  return runs;
}

}  // namespace

ParsedAssignment parse_assignment(std::string_view text, std::string_view file, std::int64_t seed) {
  ParsedLesson lesson = parse_lesson(text, file, seed);
  ParsedAssignment parsed;
  parsed.problems = std::move(lesson.problems);
  Assignment& assignment = parsed.assignment;
  assignment.lesson = std::move(lesson.lesson);
  for (const LessonStep& step : assignment.lesson.steps)
    for (const LessonTask& task : step.tasks) assignment.steps = std::max(assignment.steps, task.until);
  TomlProblems problems{std::string(file)};
  read_toml(text, problems, [&](TomlSection& root) {
    root.unread_table();  // the other keys are those of the lesson
    const bool found = root.inside("assignment", [&](TomlSection& section) {
      assignment.preset = section.required_text("preset");
      section.for_each_section("own", [&](TomlSection& own_run) { read_own_run(own_run, assignment); });
      section.for_each_section("number", [&](TomlSection& number) {
        assignment.numbers.push_back(read_asked_number(number, assignment.lesson));
      });
    });
    if (!found) problems.add(0, "assignment", "is missing");
    if (assignment.steps == 0) problems.add(0, "step", "a problem set needs a task run_until");
  });
  parsed.problems.insert(parsed.problems.end(), problems.found.begin(), problems.found.end());
  return parsed;
}

std::vector<std::string> assignment_names() {
  return names_in(kAssignments);
}

ParsedAssignment find_assignment(std::string_view name, std::int64_t seed) {
  const std::vector<std::string_view> files = assets_in(kAssignments);
  for (std::size_t i = 0; i < files.size(); ++i)
    if (name == name_without_number(files[i]) || name == std::to_string(i + 1))
      return parse_assignment(asset(files[i]), files[i], seed);
  return unread<ParsedAssignment>(name, "no such problem set; allowed: " + joined(assignment_names(), ", "));
}

std::vector<LessonCheck> aims(const Assignment& assignment, int run) {
  std::vector<LessonCheck> found;
  for (const LessonStep& step : assignment.lesson.steps)
    for (const LessonCheck& check : step.checks)
      if (check.figure.run() == run) found.push_back(check);
  return found;
}

int max_marks(const Assignment& assignment) {
  std::int64_t marks = 1;  // for the losses of the runs
  for (const LessonStep& step : assignment.lesson.steps) marks += step.prediction ? 1 : 0;
  for (const AssignmentNumber& number : assignment.numbers) marks += number.marks;
  for (const auto& [run, allowed] : assignment.may_set) marks += kCheckMarks * std::ssize(aims(assignment, run));
  return to_int(marks);
}

std::string student_name(std::string_view typed) {
  std::istringstream words{std::string(typed)};
  std::string name;
  for (std::string word; words >> word;) name += (name.empty() ? "" : "-") + word;
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

std::int64_t seed_of_student(std::string_view student) {
  constexpr std::uint64_t kSeeds = 1000000;
  Digest digest;
  digest.add(student_name(student));
  return static_cast<std::int64_t>(digest.value() % kSeeds) + 1;
}

std::string student_problem(std::string_view student) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyz0123456789._@+-";
  constexpr std::size_t kMaxLength = 64;
  const std::string name = student_name(student);
  const bool is_name = !name.empty() && name.size() <= kMaxLength && name.find_first_not_of(kAllowed) == name.npos &&
                       std::isalnum(static_cast<unsigned char>(name.front()));
  return is_name ? "" : "must have 1 to 64 letters a to z, digits, blanks and . _ @ + -, the first a letter or digit";
}

ParsedHandIn parse_hand_in(std::string_view text, std::string_view file) {
  TomlProblems problems{std::string(file)};
  ParsedHandIn parsed;
  read_toml(text, problems, [&](TomlSection& root) { parsed.hand_in = read_hand_in(root); });
  problems.sort();
  parsed.problems = std::move(problems.found);
  return parsed;
}

ParsedHandIn load_hand_in(const std::string& path) {
  std::string text;
  const std::string reason = read_toml_file(path, kMaxHandInBytes, "hand-in", text);
  return reason.empty() ? parse_hand_in(text, path) : unread<ParsedHandIn>(path, reason);
}

std::string to_toml(const HandIn& hand_in) {
  std::string text = head_of_hand_in(hand_in.assignment, hand_in.student, hand_in.seed) + '\n';
  for (const auto& [step, made] : hand_in.predictions)
    text += "predictions." + step_key(step) + " = " + toml_value(made) + '\n';
  for (const auto& [value, answer] : hand_in.answers) text += "answers." + value + " = " + toml_value(answer) + '\n';
  for (const auto& [run, settings] : hand_in.settings)
    for (const auto& [setting, value] : settings)
      text += fmt::format("settings.{}.{} = {}\n", run_letter(run), setting.key(), toml_value(value));
  for (const auto& [run, digest] : hand_in.losses) text += fmt::format("losses.{} = \"{}\"\n", run_letter(run), digest);
  return text;
}

std::string hand_in_form(const Assignment& assignment, const std::string& student) {
  const Lesson& lesson = assignment.lesson;
  std::string text = toml_comment(fmt::format(
      "{}. {} marks.\n"
      "Fill in this file from top to bottom with a text editor: replace every \"?\" by a number. A prediction has half "
      "a mark if it is made, and half a mark if it is right. Make it before you train: nobody checks that, it is left "
      "to your honour. The runs have 1 mark if the losses of all are those of their settings and your seed.\n"
      "Add your own settings to the command of their run by --set KEY=VALUE; of one key the last counts. "
      "Open the recordings in the window, or print figures: moescope-cli figures RUN. Means of the last 50 steps: "
      "moescope-cli figures RUN --last 50; or page Overview, panel Loss, Smoothing in its menu, the number at the end "
      "of the curve.\n"
      "At the end, moescope-cli lesson --hand-in THIS_FILE -o HAND_IN.toml trains the runs again and writes the file "
      "that you hand in.",
      lesson.title, max_marks(assignment)));
  text += '\n' + head_of_hand_in(lesson.name, student_name(student), seed_of_student(student));
  std::set<int> known = {-1};
  for (std::size_t i = 0; i < lesson.steps.size(); ++i) {
    const LessonStep& step = lesson.steps[i];
    text += "\n\n" + toml_comment(fmt::format("{}. {}\n{}", i + 1, step.title, step.text));
    std::string settings, commands;
    for (const int run : runs_of(step)) {
      if (!known.insert(run).second) continue;
      if (assignment.may_set.contains(run)) settings += own_run_form(assignment, run);
      commands += fmt::format("#   moescope-cli train{} -o {}-{}.moescope\n",
                              train_options(assignment, lesson.runs[run]), run_letter(run), lesson.runs[run].name);
    }
    const std::string prediction = step.prediction ? prediction_form(*step.prediction, to_int(i)) : "";
    const bool asks_number = step.prediction && step.prediction->number;  // of the run with these settings
    text += (asks_number ? settings + prediction : prediction + settings) + "\n# Train:\n" + commands;
    for (const AssignmentNumber& number : assignment.numbers)
      if (number.step == i) text += answer_form(number);
  }
  return text;
}

std::vector<std::string> hand_in_problems(const HandIn& hand_in, const Assignment& assignment) {
  std::vector<std::string> problems;
  const Lesson& lesson = assignment.lesson;
  if (hand_in.seed != seed_of_student(hand_in.student))
    problems.push_back(fmt::format("seed is {}; that of student {} is {}", hand_in.seed, hand_in.student,
                                   seed_of_student(hand_in.student)));
  for (const auto& [step, made] : hand_in.predictions) {
    const bool has_prediction = step < std::ssize(lesson.steps) && lesson.steps[step].prediction;
    const std::string reason =
        has_prediction ? prediction_problem(*lesson.steps[step].prediction, made) : "has no prediction";
    if (!reason.empty()) problems.push_back("predictions." + step_key(step) + ' ' + reason);
  }
  for (const auto& [value, answer] : hand_in.answers)
    if (std::ranges::find(assignment.numbers, value, &AssignmentNumber::value) == assignment.numbers.end())
      problems.push_back("answers." + value + " is not asked for");
  for (const auto& [run, digest] : hand_in.losses)
    if (run >= std::ssize(lesson.runs)) problems.push_back(std::string("losses: there is no run ") + run_letter(run));
  std::map<int, std::vector<Setting>> allowed = assignment.may_set;
  for (const auto& [run, settings] : hand_in.settings) {
    if (run >= std::ssize(lesson.runs)) {
      problems.push_back(std::string("settings: there is no run ") + run_letter(run));
      continue;
    }
    const std::string reason = settings_problem(settings, allowed[run], lesson.runs[run]);
    if (!reason.empty()) problems.push_back(std::string("settings.") + run_letter(run) + ": " + reason);
  }
  return problems;
}

std::vector<RunConfig> hand_in_runs(const HandIn& hand_in, const Assignment& assignment) {
  std::vector<RunConfig> runs = assignment.lesson.runs;
  for (const auto& [run, settings] : hand_in.settings) apply_settings(settings, runs.at(run));
  return runs;
}

}  // namespace moescope
