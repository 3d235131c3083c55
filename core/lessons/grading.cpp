#include "core/lessons/grading.h"

#include <fmt/core.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
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

void name_students_with_several(const std::vector<ReadHandIn>& read_files, std::vector<GradedHandIn>& graded) {
  std::map<std::pair<std::string, std::string>, int> counts;
  for (const GradedHandIn& row : graded) ++counts[{row.student, row.assignment}];
  for (std::size_t i = 0; i < graded.size(); ++i)
    if (read_files[i].assignment && counts[{graded[i].student, graded[i].assignment}] > 1)
      graded[i].problem = "student " + graded[i].student + " has several hand-ins for this problem set; all are graded";
}

// The runs of a graded hand-in: trained again, and whether their losses are those that were handed in.
class GradedRuns {
 public:
  GradedRuns(const HandIn& hand_in, const Assignment& assignment, const RunPool& pool, std::vector<GradeMark>& marks)
      : reader_(assignment.lesson.tensors) {
    std::vector<HistoryPtr> histories;
    const std::vector<RunConfig> configs = hand_in_runs(hand_in, assignment);
    for (int run = 0; run < std::ssize(configs); ++run) {
      const PooledRun& trained = pool.find(configs[run], assignment.steps);
      histories.push_back(trained.history);
      const std::string& reason = reasons_.emplace_back(difference_of(hand_in, run, trained));
      marks.push_back({std::string("Run ") + run_letter(run) + ", " + configs[run].name + ": losses",
                       reason.empty() ? 1.0 : 0.0, 1, reason.empty() ? "the same losses to the bit" : reason});
    }
    reader_.set_histories(std::move(histories));
  }

  const LessonReader& reader() const { return reader_; }
  // Returns why the figure has no marks; empty if the losses of its run were right.
  std::string problem_of(const LessonFigure& figure) const {
    const auto* source = std::get_if<RunFigure>(&figure.source);
    if (!source || reasons_.at(source->run).empty()) return {};
    return fmt::format("no marks; run {}: {}", run_letter(source->run), reasons_[source->run]);
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
  std::vector<std::string> reasons_;  // why the losses of each run are not right; empty: they are
};

GradeMark prediction_mark(const HandIn& hand_in, const LessonStep& step, int index, const LessonReader& reader) {
  const LessonPrediction& prediction = *step.prediction;
  const auto made = hand_in.predictions.find(index);
  if (made == hand_in.predictions.end()) return {"Prediction: " + step.title, 0, 1, "not made"};
  std::string result = "made";
  if (!prediction.number)
    result += made->second == prediction.right + 1 ? ", right" : "; right: " + prediction.choices[prediction.right];
  else if (const std::optional<double> value = reader.read(*prediction.number)) {
    const double distance = std::fabs(made->second - (is_share(*prediction.number) ? 100 : 1) * *value);
    result += ": " + shortest(made->second) + "; measured " + figure_text(*prediction.number, *value);
    result += distance <= prediction.within ? ", right" : ", not right";
  }
  return {"Prediction: " + step.title, 1, 1, result};
}

GradeMark number_mark(const HandIn& hand_in, const AssignmentNumber& number, const GradedRuns& runs) {
  GradeMark mark{number.question, 0, static_cast<double>(number.marks), runs.problem_of(number.figure)};
  const auto answer = hand_in.answers.find(number.value);
  if (answer == hand_in.answers.end()) {
    mark.output = "not answered";
  } else if (!mark.output.empty()) {
    return mark;
  } else if (const std::optional<double> value = runs.reader().read(number.figure)) {
    const double asked_value = (is_share(number.figure) ? 100 : 1) * *value;
    const bool right = std::fabs(answer->second - asked_value) <= number.within * std::fabs(asked_value);
    mark.score = right ? mark.max_score : 0;
    mark.output = "answered " + shortest(answer->second) + "; measured " + figure_text(number.figure, *value);
  } else {
    mark.output = "the run has no such figure";
  }
  return mark;
}

GradeMark check_mark(const LessonCheck& check, const GradedRuns& runs) {
  GradeMark mark{check.text, 0, kCheckMarks, runs.problem_of(check.figure)};
  for (const auto& bound : {check.above, check.below})
    if (mark.output.empty() && bound && bound->figure) mark.output = runs.problem_of(*bound->figure);
  if (!mark.output.empty()) return mark;
  const LessonJudgement judgement = runs.reader().judge(check);
  if (judgement.state == LessonJudgement::State::holds) mark.score = mark.max_score;
  mark.output = judgement.text + (judgement.note.empty() ? "" : " (" + judgement.note + ")");
  return mark;
}

void mark_hand_in(const HandIn& hand_in, const Assignment& assignment, const RunPool& pool, GradedHandIn& graded) {
  const std::vector<LessonStep>& steps = assignment.lesson.steps;
  const GradedRuns runs(hand_in, assignment, pool, graded.marks);
  for (int run = 0; run < std::ssize(assignment.lesson.runs); ++run)
    if (!hand_in.losses.contains(run))
      graded.problem += fmt::format("{}run {} is not handed in", graded.problem.empty() ? "" : "; ", run_letter(run));
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (steps[i].prediction) graded.marks.push_back(prediction_mark(hand_in, steps[i], to_int(i), runs.reader()));
  for (const AssignmentNumber& number : assignment.numbers) graded.marks.push_back(number_mark(hand_in, number, runs));
  for (const auto& [run, allowed] : assignment.may_set)
    for (const LessonCheck& aim : aims(assignment, run)) graded.marks.push_back(check_mark(aim, runs));
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

double GradedHandIn::score() const {
  double sum = 0;
  for (const GradeMark& mark : marks) sum += mark.score;
  return sum;
}

double GradedHandIn::max_score() const {
  double sum = 0;
  for (const GradeMark& mark : marks) sum += mark.max_score;
  return sum;
}

std::string losses_digest(const History& history) {
  constexpr std::int64_t kAtOnce = 4096;
  const StepRange steps = history.steps();
  Digest digest;
  for (std::int64_t first = steps.first; first <= steps.last; first += kAtOnce) {
    const StepRange part{first, std::min(first + kAtOnce - 1, steps.last)};
    digest.add(history.values(Metric::ce_loss, kWholeRun, part));
  }
  return digest.text();
}

std::vector<GradedHandIn> grade(std::span<const std::string> paths, const std::function<void(int, int)>& progress) {
  std::vector<GradedHandIn> graded(paths.size());
  std::vector<ReadHandIn> read_files;
  for (std::size_t i = 0; i < paths.size(); ++i) read_files.push_back(read(paths[i], graded[i]));
  name_students_with_several(read_files, graded);
  RunPool pool(kGradedArrayBytes);
  for (const ReadHandIn& file : read_files)
    if (file.assignment) add_runs(file.hand_in, *file.assignment, pool);
  pool.train(progress);
  for (std::size_t i = 0; i < graded.size(); ++i)
    if (const ReadHandIn& file = read_files[i]; file.assignment)
      mark_hand_in(file.hand_in, *file.assignment, pool, graded[i]);
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

ValueTable marks_table(std::span<const GradedHandIn> graded) {
  ValueTable table({"file", "student", "problem_set", "score", "max_score", "problem"});
  for (const GradedHandIn& row : graded)
    table.add(row.file, row.student, row.assignment, row.score(), row.max_score(), row.problem);
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
