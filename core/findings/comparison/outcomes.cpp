#include "core/findings/comparison/outcomes.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <optional>

#include "core/config/config_field.h"
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
  const auto noise_twins =
      std::ranges::count_if(runs, [&](const JudgedRun& run) { return is_noise_twin(a.config, run.config); });
  const Judging judging{kRelevantGap, to_int(std::ssize(runs) - 1 - noise_twins)};
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
  Conclusion conclusion = outcome.conclusion;
  conclusion.may_change = false;  // the callers know which groups still train
  std::string words = verdict_name(conclusion);
  words.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(words.front())));
  return words;
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

namespace {

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

void add_table(Report& report, std::span<const Outcome> outcomes) {
  report.table("", outcomes_text_table(outcomes));
  if (std::ranges::any_of(outcomes, [](const Outcome& o) { return o.sqnr.operands > 0; })) report.sentence(kSqnrNote);
}

std::string signed_gap(float gap) {
  return is_missing(gap) ? "-" : fmt::format("{:+.4f}", gap);
}

std::string gap_text(const Conclusion& c) {
  return signed_gap(c.gap) + (is_missing(c.half_width) ? "" : fmt::format(" +-{:.2g}", c.half_width));
}

// Returns how much of the loss gap of `choosing` is due to routing. `replaying` replays run A's routing and otherwise
// has the same settings. Replay often narrows the interval, so that the part of the gap that is due to arithmetic can
// be told from chance even if the whole gap cannot.
std::string routing_share(const PairedRun& replaying, const PairedRun& choosing, const HistoryPtr& a,
                          std::span<const PairedRun> twins, const Judging& judging) {
  const Conclusion with = conclude(a, replaying, twins, judging, Metric::ce_loss),
                   without = conclude(a, choosing, twins, judging, Metric::ce_loss);
  if (is_missing(with.gap) || is_missing(without.gap)) return {};
  std::string text =
      fmt::format("Of the loss gap {} of {}, {} nats/token remain with replay (arithmetic), {} are due to the routing",
                  gap_text(without), choosing.run->info().name, gap_text(with), signed_gap(without.gap - with.gap));
  if (is_missing(without.half_width))
    text += "; how much of this is chance is not known: " + verdict_reasons(without).front();
  else if (std::fabs(without.gap - with.gap) < without.half_width)
    text += ", no more than chance alone can cause";
  return text;
}

// Returns a sentence on the gap of the training loss if the validation loss decides, else an empty text.
std::string beside_what_decides(const HistoryPtr& a, const PairedRun& run, std::span<const PairedRun> twins,
                                const Judging& judging) {
  if (deciding_loss(*a, *run.run) == Metric::ce_loss) return {};
  const Conclusion training = conclude(a, run, twins, judging, Metric::ce_loss);
  if (is_missing(training.gap)) return {};
  return fmt::format("{}: training loss gap {} nats/token; the validation loss decides, since it is measured",
                     run.run->info().name, gap_text(training));
}

// Returns the index of the run that differs from run `i` only in replay; nullopt if there is none.
std::optional<std::size_t> choosing_for_itself(std::span<const JudgedRun> runs, std::size_t i) {
  for (std::size_t source_run = 1; source_run < runs.size(); ++source_run) {
    const auto found = difference(runs[source_run].config, runs[i].config);
    if (found.size() == 1 && found.front().setting == &RouterConfig::replay) return source_run;
  }
  return {};
}

// Adds what tells run `i` from run 0, and the verdict unless the run shows chance.
void add_compared_run(Report& report, std::span<const JudgedRun> runs, std::size_t i, std::span<const PairedRun> twins,
                      const Judging& judging) {
  const JudgedRun& a = runs.front();
  const auto paired = [&](const JudgedRun& run) { return PairedRun{run.history, same_start(a.config, run.config)}; };
  if (const auto source_run = choosing_for_itself(runs, i); source_run && runs[i].config.router.replay)
    report.lines(routing_share(paired(runs[i]), paired(runs[*source_run]), a.history, twins, judging));
  if (is_noise_twin(a.config, runs[i].config)) return;
  report.sentence(verdict_sentence(conclude(a.history, paired(runs[i]), twins, judging)));
  report.lines(beside_what_decides(a.history, paired(runs[i]), twins, judging));
}

}  // namespace

void add_comparison(Report& report, std::span<const JudgedRun> runs, double epsilon) {
  const JudgedRun& a = runs.front();
  std::vector<HistoryPtr> histories;
  std::vector<PairedRun> twins;
  for (const JudgedRun& run : runs) {
    histories.push_back(run.history);
    if (is_noise_twin(a.config, run.config)) twins.push_back({run.history, same_start(a.config, run.config)});
  }
  const StepRange window = last_common_steps(histories, kOutcomeSteps);
  if (window.empty()) return;
  const Judging judging{kRelevantGap, to_int(histories.size() - 1 - twins.size())};
  report.sentence("");
  report.sentence(fmt::format("Comparison after {} steps; means over the last {}, loss in nats/token", window.last + 1,
                              window.size()));
  add_table(report, outcomes(runs));
  for (std::size_t i = 1; i < runs.size(); ++i) {
    const std::string& name = runs[i].history->info().name;
    const auto first = first_divergence_step(*a.history, *runs[i].history, epsilon);
    const std::string above = shortest(epsilon);
    report.sentence(first ? fmt::format("{}: first step with a loss difference above {}: {}", name, above, *first)
                          : fmt::format("{}: no loss difference above {}", name, above));
    if (const std::string routing = to_text(routing_overlap(*runs[i].history, window.last)); !routing.empty())
      report.sentence(name + ": " + routing);
    add_compared_run(report, runs, i, twins, judging);
  }
  report.sentence(
      twins.empty()
          ? "Add --perturbed-twin or --noise-twin to see how much of a difference is noise."
          : fmt::format("Gaps are means of paired losses over the last half of the steps, of the validation loss where "
                        "it is measured (telemetry.validation_every), with 95 % intervals by the noise twins of the "
                        "same start, or else by those of another seed; {} % of the first run's loss counts as a "
                        "difference that matters.",
                        shortest(100 * kRelevantGap)));
}

void add_outcomes(Report& report, std::span<const Outcome> outcomes) {
  if (outcomes.empty()) return;
  report.sentence("");
  report.sentence(fmt::format(
      "Outcomes, losses in nats/token; loss, flips and speed over the last {} steps, the rest as last measured",
      kOutcomeSteps));
  add_table(report, outcomes);
  bool has_twin = false, validates = false;
  for (const Outcome& outcome : outcomes) {
    has_twin |= outcome.noise_twin;
    validates |= outcome.conclusion.loss == Metric::val_loss;
    if (!outcome.noise_twin) report.lines(verdict_sentence(outcome.conclusion));
  }
  report.sentence(
      "All groups read the same batches and trained run A to the same bits, so that candidates of different groups can "
      "be compared.");
  report.sentence(fmt::format(
      "Gaps are means of paired {} losses over the last half of the steps{}", validates ? "validation" : "training",
      has_twin ? fmt::format(", with 95 % intervals by the noise twins; {} % of run A's loss counts as a "
                             "difference that matters.",
                             shortest(100 * kRelevantGap))
               : ". Add --perturbed-twin or --noise-twin to see how much of a gap is noise."));
}

}  // namespace moescope
