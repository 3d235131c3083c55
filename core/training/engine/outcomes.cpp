#include "core/training/engine/outcomes.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "core/files/text/words.h"
#include "core/findings/comparison/verdict_words.h"

namespace moescope {
namespace {

Outcome outcome_of(const JudgedRun& a, const JudgedRun& run, std::span<const PairedRun> twins, const Judging& judging) {
  Outcome outcome;
  outcome.name = run.config.name;
  outcome.differs = differing_settings(a.config, run.config);
  outcome.group = run.group;
  outcome.waits = !a.history || !run.history;
  outcome.noise_twin = is_noise_twin(a.config, run.config);
  if (outcome.waits) return outcome;
  const std::array<HistoryPtr, 2> pair = {a.history, run.history};
  const StepRange window = last_common_steps(pair, kOutcomeSteps);
  outcome.figures = run_figures(*run.history, window);
  if (window.empty()) return outcome;
  outcome.costs = format_costs(*run.history, window.last);
  if (&run != &a)
    outcome.conclusion = conclude(a.history, {run.history, same_start(a.config, run.config)}, twins, judging);
  return outcome;
}

// Sets the SQNR of the runs that do not wait.
void add_sqnr(std::span<const JudgedRun> runs, std::vector<Outcome>& outcomes) {
  std::vector<HistoryPtr> histories;
  for (const JudgedRun& run : runs)
    if (run.history) histories.push_back(run.history);
  if (histories.empty() || histories.front() != runs.front().history) return;
  const StepRange last = last_common_steps(histories, 1);
  if (last.empty()) return;
  const std::vector<OperandSqnr> found = operand_sqnr(histories, last.last);
  auto next = found.begin();
  for (Outcome& outcome : outcomes)
    if (!outcome.waits) outcome.sqnr = *next++;
}

// A column of figures; the key contains the unit. kNoValue: not known.
struct OutcomeFigure {
  const char* key;
  float (*value)(const Outcome&);
  const char *name = nullptr, *unit = "", *format = "";  // of the column for people; nullptr: none
};

constexpr OutcomeFigure kOutcomeFigures[] = {
    {"final_loss_nats", [](const Outcome& o) { return o.figures.final_loss; }, "loss", "", ".4f"},
    {"mean_loss_nats", [](const Outcome& o) { return o.figures.mean_loss; }, "mean loss", "", ".4f"},
    {"loss_gap_nats", [](const Outcome& o) { return o.conclusion.gap; }, "gap to A", "", "+.4f"},
    {"interval_half_width_nats", [](const Outcome& o) { return o.conclusion.half_width; }, "+-", "", ".4f"},
    {"gap_that_matters_nats", [](const Outcome& o) { return o.conclusion.matters; }},
    {"more_steps_for_a_verdict",
     [](const Outcome& o) {
       return o.conclusion.missing_steps > 0 ? static_cast<float>(o.conclusion.missing_steps) : kNoValue;
     }},
    {"gradient_error_share", [](const Outcome& o) { return o.costs.gradient_error; }, "gradient error", "share", ".2f"},
    {"flips_by_rounding_share", [](const Outcome& o) { return o.costs.flips; }, "by rounding", "share", ".2f"},
    {"flips_against_a_share", [](const Outcome& o) { return o.figures.flip_rate; }, "flips", "share", ".2f"},
    {"underflow_share", [](const Outcome& o) { return o.costs.flushed; }, "underflow", "share", ".2f"},
    {"sqnr_worst_db", [](const Outcome& o) { return o.sqnr.worst_db; }, "lowest SQNR", "dB", ".1f"},
    {"sqnr_mean_db", [](const Outcome& o) { return o.sqnr.mean_db; }, "mean", "dB", ".1f"},
    {"max_vio", [](const Outcome& o) { return o.figures.max_vio; }, "MaxVio", "", ".3f"},
    {"tokens_per_s", [](const Outcome& o) { return o.figures.tokens_per_s; }, "tokens/s", "", ".0f"},
};

}  // namespace

std::string differing_settings(const RunConfig& first, const RunConfig& config) {
  return joined(difference(first, config), ", ",
                [](const ConfigDifference& found) { return found.setting.key() + " = " + found.b; });
}

std::vector<Outcome> outcomes(std::span<const JudgedRun> runs) {
  std::vector<Outcome> found;
  if (runs.empty()) return found;
  const JudgedRun& a = runs.front();
  std::vector<PairedRun> twins;
  for (const JudgedRun& run : runs.subspan(1))
    if (run.history && is_noise_twin(a.config, run.config))
      twins.push_back({run.history, same_start(a.config, run.config)});
  const auto of_chance =
      std::ranges::count_if(runs, [&](const JudgedRun& run) { return is_noise_twin(a.config, run.config); });
  const Judging judging{kRelevantGap, to_int(std::ssize(runs) - 1 - of_chance)};
  for (const JudgedRun& run : runs) found.push_back(outcome_of(a, run, twins, judging));
  add_sqnr(runs, found);
  std::stable_sort(found.begin() + 1, found.end(), [](const Outcome& one, const Outcome& other) {
    const float gap = one.conclusion.gap, next = other.conclusion.gap;
    if (is_missing(gap) || is_missing(next)) return !is_missing(gap) && is_missing(next);
    return gap < next;
  });
  return found;
}

std::string verdict_words(const Outcome& outcome) {
  if (outcome.waits) return "waiting";
  if (outcome.differs.empty()) return "run A";
  if (outcome.noise_twin) return "noise twin";
  std::string word = to_text(verdict_word(outcome.conclusion));
  word.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(word.front())));
  return word;
}

std::string underflow_place(const Outcome& outcome) {
  return is_missing(outcome.costs.flushed) ? "" : place_text(outcome.costs.flushed_operand);
}

ValueTable outcomes_table(std::span<const Outcome> outcomes) {
  std::vector<ValueColumn> columns{{"candidate"}, {"differs_in"},        {"group"},           {"verdict"},
                                   {"steps"},     {"first_judged_step"}, {"last_judged_step"}};
  for (const OutcomeFigure& figure : kOutcomeFigures) columns.push_back({figure.key});
  for (const char* name : {"underflow_at", "sqnr_worst_at", "judged_loss"}) columns.push_back({name});
  for (ValueColumn& column : columns) column.key = column.name;
  columns[5].key = "judged_steps.0";  // JSON has the two steps as an array
  columns[6].key = "judged_steps.1";
  columns.push_back({.key = "conclusion"});
  ValueTable table(std::move(columns));
  for (const Outcome& o : outcomes) {
    const StepRange judged = o.conclusion.steps;
    const auto step = [&](std::int64_t value) { return judged.empty() ? TableValue() : table_value(value); };
    std::vector<TableValue> row{o.name,
                                o.differs,
                                table_value(o.group),
                                verdict_words(o),
                                o.waits ? TableValue() : table_value(o.figures.steps),
                                step(judged.first),
                                step(judged.last)};
    for (const OutcomeFigure& figure : kOutcomeFigures) row.push_back(table_value(figure.value(o)));
    row.insert(row.end(),
               {underflow_place(o), o.sqnr.operands > 0 ? place_text(o.sqnr.worst) : "",
                is_missing(o.conclusion.gap) ? "" : loss_words(o.conclusion.loss), verdict_sentence(o.conclusion)});
    table.add_row(row);
  }
  return table;
}

ValueTable outcomes_text_table(std::span<const Outcome> outcomes) {
  std::vector<ValueColumn> columns{{"candidate"}};
  for (const OutcomeFigure& figure : kOutcomeFigures)
    if (figure.name) columns.push_back({.name = figure.name, .unit = figure.unit, .format = figure.format});
  for (const char* name : {"verdict", "group", "differs in"}) columns.push_back({name});
  ValueTable table(std::move(columns));
  for (const Outcome& o : outcomes) {
    std::vector<TableValue> row{o.name};
    for (const OutcomeFigure& figure : kOutcomeFigures)
      if (figure.name) row.push_back(table_value(figure.value(o)));
    row.insert(row.end(), {verdict_words(o), o.differs.empty() ? "all" : std::to_string(o.group), o.differs});
    table.add_row(row);
  }
  return table;
}

}  // namespace moescope
