#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>

#include "app/cli/command_line.h"
#include "core/config/config_check.h"
#include "core/files/output_guard.h"
#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"
#include "core/lessons/grading.h"
#include "core/lessons/lesson_runner.h"
#include "core/lessons/lesson_twins.h"

namespace moescope {
namespace {

constexpr int kStatementFailed = 1;

struct LessonOptions {
  std::string name, form, student, hand_in, grade, out;
  std::vector<std::int64_t> seeds;
  bool list = false, figures = false, quiet = false, overwrite = false;
};

void print_list() {
  Report report;
  int number = 0;
  for (const std::string& name : lesson_names()) {
    const Lesson lesson = find_lesson(name).lesson;
    report.sentence(fmt::format("{}  {:<22} {}", ++number, name, lesson.title));
    report.sentence("   " + lesson.subject);
  }
  report.sentence("");
  report.sentence("Faults of real trainings:");
  for (const std::string& name : exhibit_names())
    report.sentence(fmt::format("   {:<22} {}", name, find_lesson(name).lesson.title));
  report.sentence("");
  report.sentence("Problem sets:");
  for (const std::string& name : assignment_names())
    report.sentence(fmt::format("   {:<22} {}", name, find_assignment(name, 1).assignment.lesson.title));
  print_report(report);
}

void print_figures() {
  ValueTable table({"figure", "unit", "meaning"});
  for (const LessonFigureInfo& info : lesson_figures()) table.add(info.key, info.unit, info.meaning);
  Report report;
  report.table("", table);
  print_report(report);
}

constexpr const char* kStates[] = {"open  ", "holds ", "FAILS "};  // by LessonJudgement::State

bool run_one(const LessonOptions& options, std::optional<std::int64_t> seed) {
  const ParsedLesson parsed = find_lesson(options.name, seed);
  if (!parsed.problems.empty()) throw std::runtime_error(joined(parsed.problems, "\n", &ConfigProblem::text));
  const Lesson& lesson = parsed.lesson;
  print_out("{}{}\n", printable(lesson.title), seed ? (fmt::format(", seed {}", *seed)) : "");
  for (const std::string& comparison : unclear_comparisons(lesson))
    print_to(stderr, "note: more than one cause in step {}\n", printable(comparison));
  const LessonOutcome outcome = run_lesson(lesson, [&](const std::string& task) {
    if (!options.quiet) print_out("    ... {}\n", printable(task));
    std::fflush(stdout);
  });
  Report report;
  int step = -1;
  for (const LessonOutcome::Line& line : outcome.checks) {
    if (line.step != step) {
      step = line.step;
      report.sentence(fmt::format("  {} {}", step + 1, lesson.steps[step].title));
    }
    const std::string note = line.judgement.note.empty() ? "" : " (" + line.judgement.note + ")";
    report.sentence(fmt::format("    {} {}: {}", kStates[static_cast<int>(line.judgement.state)], line.text,
                                line.judgement.text + note));
  }
  report.sentence(outcome.holds ? "The result agrees with the lesson." : "The result does NOT agree with the lesson.");
  print_report(report);
  return outcome.holds;
}

Assignment required_assignment(const std::string& name, const std::string& student) {
  if (const std::string problem = student_problem(student); !problem.empty())
    throw std::runtime_error("--student: " + problem);
  ParsedAssignment parsed = find_assignment(name, seed_of_student(student));
  if (!parsed.problems.empty()) throw std::runtime_error(joined(parsed.problems, "\n", &ConfigProblem::text));
  return std::move(parsed.assignment);
}

std::function<void(int, int)> run_progress(const LessonOptions& options) {
  if (options.quiet) return {};
  return [](int ended, int all) { print_to(stderr, "{} of {} runs\n", ended, all); };
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) throw OutputError("--out " + folder.string() + ": " + error.message());
}

void write_form(const LessonOptions& options) {
  const std::string form = hand_in_form(required_assignment(options.form, options.student), options.student);
  if (options.out.empty()) return print_out("{}", form);
  guard_outputs({}, {{"--out", options.out}}, options.overwrite);
  write_output("", options.out, form);
}

void write_hand_in(const LessonOptions& options) {
  if (options.out.empty()) throw std::runtime_error("--hand-in: needs --out FILE, the file to hand in");
  make_folder(std::filesystem::path(options.out).parent_path());
  guard_outputs({options.hand_in}, {{"--out", options.out}}, options.overwrite);
  ParsedHandIn parsed = load_hand_in(options.hand_in);
  if (!parsed.problems.empty()) throw std::runtime_error(joined(parsed.problems, "\n", &ConfigProblem::text));
  HandIn& hand_in = parsed.hand_in;
  fill_in_losses(hand_in, required_assignment(hand_in.assignment, hand_in.student), run_progress(options));
  write_output("", options.out, to_toml(hand_in));
}

// Returns the hand-ins of a folder, sorted. Links are left out: one to another student's file would show its contents.
std::vector<std::string> hand_ins_in(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (entry.path().extension() == ".toml" && entry.symlink_status().type() == std::filesystem::file_type::regular)
      paths.push_back(entry.path().string());
  if (error) throw std::runtime_error(folder + ": " + error.message());
  if (paths.empty()) throw std::runtime_error(folder + ": there is no .toml file in it");
  std::ranges::sort(paths);
  return paths;
}

void grade_folder(const LessonOptions& options) {
  if (options.out.empty()) throw std::runtime_error("--grade: needs --out FOLDER for the marks");
  const std::vector<std::string> paths = hand_ins_in(options.grade);
  const std::filesystem::path out(options.out);
  std::vector<std::string> files = {(out / "marks.csv").string()};
  for (const std::string& path : paths)
    files.push_back((out / std::filesystem::path(path).filename().replace_extension(".json")).string());
  std::vector<OutputFile> outputs;
  for (const std::string& file : files) outputs.push_back({"--out", file});
  make_folder(out);
  guard_outputs(paths, outputs, options.overwrite);
  const std::vector<GradedHandIn> graded = grade(paths, run_progress(options));
  write_output("", files[0], to_csv(marks_table(graded, true)));
  for (std::size_t i = 0; i < graded.size(); ++i) write_output("", files[i + 1], gradescope_json(graded[i]));
  Report report;
  report.table("", marks_table(graded, false));
  print_report(report);
}

// Refuses options that would have no effect.
void check(const Command& command) {
  std::string task = "NAME";
  for (const char* other : {"--form", "--hand-in", "--grade", "--figures", "--list"}) {
    if (!command.is_given(other)) continue;
    if (command.is_given(task.c_str())) throw std::runtime_error(fmt::format("{} cannot be used with {}", other, task));
    task = other;
  }
  if (task != "NAME") command.refuse({"--seed"}, "needs NAME");
  if (task != "--form") command.refuse({"--student"}, "needs --form");
  if (task != "--form" && task != "--hand-in" && task != "--grade")
    command.refuse({"--out", "--overwrite"}, "needs --form, --hand-in or --grade");
}

void run_lessons(const LessonOptions& options, const Command& command) {
  check(command);
  if (!options.form.empty()) return write_form(options);
  if (!options.hand_in.empty()) return write_hand_in(options);
  if (!options.grade.empty()) return grade_folder(options);
  if (options.figures) return print_figures();
  if (options.list || options.name.empty()) return print_list();
  std::vector<std::optional<std::int64_t>> seeds(options.seeds.begin(), options.seeds.end());
  if (seeds.empty()) seeds.emplace_back();
  bool all = true;
  for (const auto& seed : seeds) all &= run_one(options, seed);
  if (!all) throw ExitStatus{kStatementFailed};
}

}  // namespace

void add_lesson_command(CLI::App& app) {
  auto options = std::make_shared<LessonOptions>();
  Command command(app, "lesson", "Run a guided lesson and check that its statements hold");
  command.option("NAME", options->name, "Name or number of a lesson, or the path of a .toml file");
  command.option("--seed", options->seeds, "Seed of weights, data and tensors; may be repeated")
      .range(std::int64_t{0}, std::int64_t{1} << 40);
  command.option("--list", options->list, "List the lessons");
  command.option("--figures", options->figures, "List the figures that a lesson's checks can use");
  command.option("--quiet", options->quiet, "Print only the checks");
  const Option student = command.option(
      "--student", options->student, "Name of the student, for the seed; capitals do not matter, a blank is a hyphen");
  command.option("--form", options->form, "Write the form of this problem set, by name or number, for the student")
      .needs(student);
  command.option("--hand-in", options->hand_in, "Train the runs of this filled form and write the file to hand in");
  command.option("--grade", options->grade,
                 "Grade the hand-ins in this folder: trains each run again and compares its losses to the bit");
  command.option("-o,--out", options->out,
                 "File of --form or --hand-in; with --grade a folder, for marks.csv and a .json for each hand-in as "
                 "Gradescope reads it");
  command.option("--overwrite", options->overwrite, "Replace existing files of --out");
  command.runs([options, command] { run_lessons(*options, command); });
}

}  // namespace moescope
