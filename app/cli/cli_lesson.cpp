#include <cstdio>
#include <memory>
#include <stdexcept>

#include "app/cli/command_line.h"
#include "app/cli/commands.h"
#include "app/cli/printing.h"
#include "core/config/config_check.h"
#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"
#include "core/lessons/lesson_runner.h"
#include "core/lessons/lesson_twins.h"

namespace moescope {
namespace {

constexpr int kStatementFailed = 1;

struct LessonOptions {
  std::string name;
  std::vector<std::int64_t> seeds;
  bool list = false, figures = false, quiet = false;
};

void print_list() {
  int number = 0;
  for (const std::string& name : lesson_names()) {
    const Lesson lesson = find_lesson(name).lesson;
    print_out("{}  {:<22} {}\n   {}\n", ++number, name, printable(lesson.title), printable(lesson.teaches));
  }
  print_out("\nFaults of real trainings:\n");
  for (const std::string& name : exhibit_names()) {
    const Lesson exhibit = find_lesson(name).lesson;
    print_out("   {:<22} {}\n   {}\n", name, printable(exhibit.title), printable(exhibit.teaches));
  }
}

void print_figures() {
  for (const LessonFigureInfo& info : lesson_figures())
    print_out("{:<28} {:<10} {}\n", info.key, info.unit, info.meaning);
}

const char* mark(LessonJudgement::State state) {
  return state == LessonJudgement::State::holds   ? "holds "
         : state == LessonJudgement::State::fails ? "FAILS "
                                                  : "open  ";
}

bool run_one(const LessonOptions& options, std::optional<std::int64_t> seed) {
  const ParsedLesson parsed = find_lesson(options.name, seed);
  if (!parsed.problems.empty()) throw std::runtime_error(joined(parsed.problems, "\n", &ConfigProblem::text));
  const Lesson& lesson = parsed.lesson;
  print_out("{}{}\n", printable(lesson.title), seed ? (fmt::format(", seed {}", *seed)) : "");
  for (const std::string& each : unclear_comparisons(lesson))
    print_to(stderr, "note: more than one cause in step {}\n", printable(each));
  const LessonOutcome outcome = run_lesson(lesson, [&](const std::string& task) {
    if (!options.quiet) print_out("    ... {}\n", printable(task));
    std::fflush(stdout);
  });
  int step = -1;
  for (const LessonOutcome::Line& line : outcome.checks) {
    if (line.step != step) {
      step = line.step;
      print_out("  {} {}\n", step + 1, printable(lesson.steps[step].title));
    }
    const std::string note = line.judgement.note.empty() ? "" : " (" + line.judgement.note + ")";
    print_out("    {} {}: {}\n", mark(line.judgement.state), printable(line.text),
              printable(line.judgement.text + note));
  }
  print_out("{}\n",
            outcome.holds ? "The result agrees with the lesson." : "The result does NOT agree with the lesson.");
  return outcome.holds;
}

void run_lessons(const LessonOptions& options) {
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
  command.footer(
      "Examples:\n"
      "  moescope-cli lesson --list\n"
      "  moescope-cli lesson bias-thermostat --seed 1 --seed 2 --seed 3\n"
      "  moescope-cli lesson my-lessons/dropout.toml\n"
      "Exit status: 0 every check holds, 1 one does not, 2 wrong input.");
  command.runs([options] { run_lessons(*options); });
}

}  // namespace moescope
