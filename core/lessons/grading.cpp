#include "core/lessons/grading.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "core/files/text/words.h"
#include "core/lessons/digest.h"
#include "core/lessons/lesson_figures.h"
#include "core/lessons/run_pool.h"

namespace moescope {
namespace {

constexpr std::size_t kGradedArrayBytes = std::size_t{4} << 20;

struct ReadHandIn {
  HandIn hand_in;
  std::optional<Assignment> assignment;  // nullopt: the hand-in cannot be graded
};

ReadHandIn read(const std::string& path, GradedHandIn& graded) {
  graded.file = path;
  ParsedHandIn parsed = load_hand_in(path);
  ReadHandIn result{std::move(parsed.hand_in), std::nullopt};
  ParsedAssignment found = find_assignment(result.hand_in.assignment, seed_of_student(result.hand_in.student));
  graded.problem = joined(parsed.problems.empty() ? found.problems : parsed.problems, "\n", &ConfigProblem::text);
  if (parsed.problems.empty()) graded.student = result.hand_in.student;
  if (found.problems.empty()) graded.assignment = found.assignment.lesson.name;
  if (graded.problem.empty()) graded.problem = joined(hand_in_problems(result.hand_in, found.assignment), "\n");
  if (graded.problem.empty())
    result.assignment = std::move(found.assignment);
  else  // 0 of the marks of its set
    graded.marks.push_back({"Hand-in", 0, found.problems.empty() ? max_marks(found.assignment) : 0.0, graded.problem});
  return result;
}

// Decides which one counts of several hand-ins of a student for a set.
void choose_those_that_count(std::vector<GradedHandIn>& graded) {
  std::map<std::pair<std::string, std::string>, std::vector<GradedHandIn*>> hand_ins;
  for (GradedHandIn& row : graded)
    if (!row.student.empty()) hand_ins[{row.student, row.assignment}].push_back(&row);
  for (const auto& [student_and_set, rows] : hand_ins) {
    const GradedHandIn* newest = *std::ranges::max_element(rows, {}, [](const GradedHandIn* row) {
      std::error_code unknown;
      return std::pair(std::filesystem::last_write_time(row->file, unknown), row->file);
    });
    for (GradedHandIn* row : rows) {
      row->counts = row == newest && !row->assignment.empty();
      if (rows.size() > 1)
        row->problem +=
            fmt::format("{}student {} has several hand-ins for this problem set; the newest file counts: {}",
                        row->problem.empty() ? "" : "; ", row->student, newest->file);
    }
  }
}

// The runs of a graded hand-in: trained again, and whether their losses are those that were handed in.
class GradedRuns {
 public:
  GradedRuns(const HandIn& hand_in, const Assignment& assignment, const RunPool& pool)
      : reader_(assignment.lesson.tensors), set_by_student_(assignment.may_set) {
    std::vector<HistoryPtr> histories;
    const std::vector<RunConfig> configs = hand_in_runs(hand_in, assignment);
    for (int run = 0; run < std::ssize(configs); ++run) {
      const PooledRun& trained = pool.find(configs[run], assignment.steps);
      histories.push_back(trained.history);
      const std::string difference = difference_of(hand_in, run, trained);
      problems_.push_back(difference.empty() ? "" : fmt::format("run {}: {}", run_letter(run), difference));
    }
    reader_.set_histories(std::move(histories));
  }

  const LessonReader& reader() const { return reader_; }
  // Returns why the figure has no marks; empty if the losses of its run were right.
  std::string problem_of(const LessonFigure& figure) const {
    const int run = figure.run();
    return run < 0 || problems_.at(run).empty() ? "" : "no marks; " + problems_[run];
  }
  // Returns whether the runs that are given confirm the choice that the set calls right.
  bool confirm(const LessonStep& step) const {
    return std::ranges::all_of(step.checks, [this](const LessonCheck& check) {
      return set_by_student_.contains(check.figure.run()) ||
             reader_.judge(check).state == LessonJudgement::State::holds;
    });
  }
  GradeMark mark() const {
    std::vector<std::string> problems = problems_;
    std::erase(problems, "");
    const bool right = problems.empty();
    return {"Losses of the runs", right ? 1.0 : 0.0, 1, right ? "the same to the bit" : joined(problems, "; "), "runs"};
  }

 private:
  static std::string difference_of(const HandIn& hand_in, int run, const PooledRun& trained) {
    if (!trained.history) return trained.trouble;
    const auto handed_in = hand_in.losses.find(run);
    if (handed_in == hand_in.losses.end()) return "not handed in";
    if (handed_in->second == losses_digest(*trained.history)) return {};
    return "the losses are not those of these settings and this seed";  // the right hash would be handed in next
  }

  LessonReader reader_;
  const std::map<int, std::vector<Setting>>& set_by_student_;
  std::vector<std::string> problems_;  // why the losses of each run are not right; empty: they are
};

struct Comparison {
  std::string output;
  double measured = 0, distance = INFINITY;
};

// Compares a number of the student with a figure of the runs.
Comparison compare(double number, const LessonFigure& figure, const GradedRuns& runs) {
  const std::optional<double> value = runs.reader().read(figure);
  const std::string problem = runs.problem_of(figure);
  if (!problem.empty() || !value)
    return {shortest(number) + "; " + (problem.empty() ? "the run has no such figure" : problem)};
  const double measured = (is_share(figure) ? 100 : 1) * *value;  // as the form asks for it
  // Has more digits than the panels, so that an answer near the limit can be compared.
  const std::string unit = find_lesson_figure(figure.key)->unit;
  return {fmt::format("{}; measured {:.5g}{}{}", shortest(number), measured, unit.empty() ? "" : " ", unit), measured,
          std::fabs(number - measured)};
}

GradeMark prediction_mark(const HandIn& hand_in, const LessonStep& step, int index, const GradedRuns& runs) {
  const LessonPrediction& prediction = *step.prediction;
  GradeMark mark{"Prediction: " + step.title, 0, 1, "not made", fmt::format("step_{}", index + 1)};
  const auto made = hand_in.predictions.find(index);
  if (made == hand_in.predictions.end()) return mark;
  bool right = false;
  if (prediction.number) {
    const Comparison comparison = compare(made->second, *prediction.number, runs);
    right = comparison.distance <= prediction.within;
    mark.output = comparison.output;
  } else {
    const bool confirmed = runs.confirm(step);
    right = made->second == prediction.right + 1 || !confirmed;
    mark.output = fmt::format("{}; the runs of this seed show {}", made->second,
                              confirmed ? prediction.choices[prediction.right] : "none of the choices");
  }
  mark.output = "made: " + mark.output + (right ? ", right" : ", not right");
  mark.score = right ? 1 : 0.5;
  return mark;
}

GradeMark number_mark(const HandIn& hand_in, const AssignmentNumber& number, const GradedRuns& runs) {
  GradeMark mark{number.question, 0, static_cast<double>(number.marks), "not answered", number.value};
  const auto answer = hand_in.answers.find(number.value);
  if (answer == hand_in.answers.end()) return mark;
  const Comparison comparison = compare(answer->second, number.figure, runs);
  if (comparison.distance <= number.within * std::fabs(comparison.measured)) mark.score = mark.max_score;
  mark.output = "answered " + comparison.output;
  return mark;
}

// Marks a run that the student sets: its aims limit each other, so that one that is reached alone gives nothing.
GradeMark aims_mark(int run, const Assignment& assignment, const GradedRuns& runs) {
  GradeMark mark{fmt::format("Aims of run {}", run_letter(run)), 0, 0, "", std::string(1, run_letter(run))};
  bool all_reached = true;
  for (const LessonCheck& aim : aims(assignment, run)) {
    std::string result = runs.problem_of(aim.figure);
    for (const auto& bound : {aim.above, aim.below})
      if (result.empty() && bound && bound->figure) result = runs.problem_of(*bound->figure);
    const LessonJudgement judgement = runs.reader().judge(aim);
    all_reached &= result.empty() && judgement.state == LessonJudgement::State::holds;
    if (result.empty()) result = judgement.text + (judgement.note.empty() ? "" : " (" + judgement.note + ")");
    mark.max_score += kCheckMarks;
    mark.output += (mark.output.empty() ? "" : "\n") + aim.text + ": " + result;
  }
  if (all_reached) mark.score = mark.max_score;
  return mark;
}

void mark_hand_in(const HandIn& hand_in, const Assignment& assignment, const RunPool& pool, GradedHandIn& graded) {
  const std::vector<LessonStep>& steps = assignment.lesson.steps;
  const GradedRuns runs(hand_in, assignment, pool);
  graded.marks.push_back(runs.mark());
  if (graded.marks.back().score == 0) graded.problem = graded.marks.back().output;
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (steps[i].prediction) graded.marks.push_back(prediction_mark(hand_in, steps[i], to_int(i), runs));
  for (const AssignmentNumber& number : assignment.numbers) graded.marks.push_back(number_mark(hand_in, number, runs));
  for (const auto& [run, allowed] : assignment.may_set) graded.marks.push_back(aims_mark(run, assignment, runs));
}

void add_runs(const HandIn& hand_in, const Assignment& assignment, RunPool& pool) {
  for (const RunConfig& config : hand_in_runs(hand_in, assignment)) pool.add(config, assignment.steps);
}

std::vector<std::string> missing_parts(const HandIn& hand_in, const Assignment& assignment) {
  std::vector<std::string> missing;
  const std::vector<LessonStep>& steps = assignment.lesson.steps;
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (steps[i].prediction && !hand_in.predictions.contains(to_int(i)))
      missing.push_back(fmt::format("predictions.step_{} is not made", i + 1));
  for (const AssignmentNumber& number : assignment.numbers)
    if (!hand_in.answers.contains(number.value)) missing.push_back("answers." + number.value + " is not answered");
  for (const auto& [run, allowed] : assignment.may_set)
    if (const auto chosen = hand_in.settings.find(run); chosen == hand_in.settings.end() || chosen->second.empty())
      missing.push_back(
          fmt::format("settings.{} has no setting: take the # from a line and choose its value", run_letter(run)));
  return missing;
}

}  // namespace

double GradedHandIn::sum(double GradeMark::*part) const {
  double all = 0;
  for (const GradeMark& mark : marks) all += mark.*part;
  return all;
}

std::string losses_digest(const History& history) {
  Digest digest;
  digest.add(history.values(Metric::ce_loss, kWholeRun, history.steps()));
  return digest.text();
}

std::vector<GradedHandIn> grade(std::span<const std::string> paths, const std::function<void(int, int)>& progress) {
  std::vector<GradedHandIn> graded(paths.size());
  std::vector<ReadHandIn> read_files;
  for (std::size_t i = 0; i < paths.size(); ++i) read_files.push_back(read(paths[i], graded[i]));
  RunPool pool(kGradedArrayBytes);
  for (const ReadHandIn& file : read_files)
    if (file.assignment) add_runs(file.hand_in, *file.assignment, pool);
  pool.train(progress);
  for (std::size_t i = 0; i < graded.size(); ++i)
    if (const ReadHandIn& file = read_files[i]; file.assignment)
      mark_hand_in(file.hand_in, *file.assignment, pool, graded[i]);
  choose_those_that_count(graded);
  return graded;
}

std::string gradescope_json(const GradedHandIn& graded) {
  nlohmann::ordered_json json{{"score", graded.score()},
                              {"visibility", "after_due_date"},  // the outputs have the right answers
                              {"tests", nlohmann::ordered_json::array()}};
  for (const GradeMark& mark : graded.marks)
    json["tests"].push_back(
        {{"name", mark.name}, {"score", mark.score}, {"max_score", mark.max_score}, {"output", mark.output}});
  return json.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

ValueTable marks_table(std::span<const GradedHandIn> graded, bool with_each_mark) {
  std::vector<ValueColumn> columns;
  for (const char* name : {"file", "student", "problem_set", "score", "max_score", "counts", "problem"})
    columns.push_back({name});
  const std::size_t first_mark_column = columns.size();
  for (const GradedHandIn& row : graded)
    for (const GradeMark& mark : row.marks)
      if (with_each_mark && std::ranges::find(columns, mark.column, &ValueColumn::name) == columns.end())
        columns.push_back({mark.column});
  ValueTable table(columns);
  for (const GradedHandIn& row : graded) {
    std::vector<TableValue> values = {row.file,        row.student, row.assignment, row.score(),
                                      row.max_score(), row.counts,  row.problem};
    for (std::size_t column = first_mark_column; column < columns.size(); ++column) {
      const auto mark = std::ranges::find(row.marks, columns[column].name, &GradeMark::column);
      values.push_back(mark == row.marks.end() ? TableValue() : TableValue(mark->score));
    }
    table.add_row(values);
  }
  return table;
}

void fill_in_losses(HandIn& hand_in, const Assignment& assignment, const std::function<void(int, int)>& progress,
                    const std::function<bool()>& is_wanted) {
  std::vector<std::string> problems = hand_in_problems(hand_in, assignment);
  for (std::string& missing : missing_parts(hand_in, assignment)) problems.push_back(std::move(missing));
  if (!problems.empty()) throw std::runtime_error(joined(problems, "\n"));
  RunPool pool(kGradedArrayBytes);
  add_runs(hand_in, assignment, pool);
  pool.train(progress, is_wanted);
  const std::vector<RunConfig> configs = hand_in_runs(hand_in, assignment);
  for (std::size_t run = 0; run < configs.size(); ++run) {
    const PooledRun& trained = pool.find(configs[run], assignment.steps);
    if (!trained.history) throw std::runtime_error(trained.trouble);
    hand_in.losses[to_int(run)] = losses_digest(*trained.history);
  }
}

}  // namespace moescope
