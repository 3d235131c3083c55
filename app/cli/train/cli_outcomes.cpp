#include "app/cli/train/cli_outcomes.h"

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

#include "app/cli/cli_json.h"
#include "app/cli/train/text_columns.h"
#include "core/comparison/verdict_words.h"
#include "core/config/config_difference.h"
#include "core/config/config_field.h"
#include "core/io/text_escape.h"
#include "core/io/whole_file.h"

namespace moescope {
namespace {

std::vector<TextRow> table_of(std::span<const Outcome> outcomes) {
  std::vector<TextRow> rows = {{"candidate", "loss", "mean loss", "gap to A", "+-", "verdict", "gradient error %",
                                "flips %", "by rounding %", "underflow %", "SQNR dB, worst", "mean", "MaxVio",
                                "tokens/s", "group", "differs in"}};
  for (const Outcome& o : outcomes)
    rows.push_back({o.name, figure_text(o.figures.final_loss, "%.4f"), figure_text(o.figures.mean_loss, "%.4f"),
                    figure_text(o.conclusion.gap, "%+.4f"), figure_text(o.conclusion.half, "%.4f"), verdict_words(o),
                    figure_text(o.costs.gradient_error, "%.2f", 100), figure_text(o.figures.flip_rate, "%.2f", 100),
                    figure_text(o.costs.flips, "%.2f", 100), figure_text(o.costs.flushed, "%.2f", 100),
                    figure_text(o.sqnr.worst_db, "%.1f"), figure_text(o.sqnr.mean_db, "%.1f"),
                    figure_text(o.figures.max_vio, "%.3f"), figure_text(o.figures.tokens_per_s, "%.0f"),
                    o.differs.empty() ? "all" : std::to_string(o.group), o.differs});
  drop_empty_columns(rows);
  return rows;
}

std::string outcomes_json(std::span<const Outcome> outcomes) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Outcome& o : outcomes) {
    nlohmann::ordered_json row = {
        {"candidate", o.name}, {"differs_in", o.differs}, {"group", o.group}, {"verdict", verdict_words(o)}};
    if (!o.waits) row["steps"] = o.figures.steps;
    if (const StepRange judged = o.conclusion.steps; !judged.empty()) row["judged_steps"] = {judged.first, judged.last};
    for (const OutcomeFigure& column : outcome_figures())
      row[column.key] = number_or_null(static_cast<double>(column.value(o)));
    row["underflow_at"] = underflow_place(o);
    row["sqnr_worst_at"] = sqnr_place(o);
    row["judged_loss"] = judged_loss(o);
    row["conclusion"] = verdict_sentence(o.conclusion);
    rows.push_back(std::move(row));
  }
  return rows.dump(2) + '\n';
}

}  // namespace

std::string outcomes_report(std::span<const Outcome> outcomes) {
  if (outcomes.empty()) return {};
  std::string text = "Outcomes, losses in nats/token; loss, flips and speed over the last " +
                     std::to_string(kOutcomeSteps) + " steps, the rest as last measured\n" +
                     aligned(table_of(outcomes));
  bool has_twin = false, has_sqnr = false, validates = false;
  for (const Outcome& outcome : outcomes) {
    has_twin |= outcome.noise_twin;
    has_sqnr |= outcome.sqnr.operands > 0;
    validates |= outcome.conclusion.loss == Metric::val_loss;
    if (outcome.noise_twin) continue;
    if (const std::string verdict = verdict_sentence(outcome.conclusion); !verdict.empty()) text += verdict + '\n';
  }
  text +=
      "All groups read the same batches and trained run A to the same bits, so that candidates of different groups can "
      "be compared.\n";
  if (has_sqnr) text += std::string(kSqnrNote) + '\n';
  text += std::string("Gaps are means of paired ") + (validates ? "validation" : "training") +
          " losses over the last half of the steps";
  if (!has_twin) return text + ". Add --perturbed-twin or --noise-twin to see how much of a gap is noise.\n";
  return text + ", with 95 % intervals by the noise twins; " + to_string(ConfigValue(100 * kMatters)) +
         " % of run A's loss counts as a difference that matters.\n";
}

void check_table_name(const std::string& path) {
  if (!path.empty() && !path.ends_with(".csv") && !path.ends_with(".json"))
    throw std::runtime_error("--table " + path + ": expected a name that ends in .csv or .json");
}

bool write_table(const std::string& path, std::span<const Outcome> outcomes, std::FILE* text) {
  try {
    write_whole_file(path, path.ends_with(".json") ? outcomes_json(outcomes) : to_csv(outcomes_table(outcomes)));
  } catch (const std::runtime_error& error) {
    std::fprintf(stderr, "moescope-cli: error: --table %s\n", printable(error.what()).c_str());
    return false;
  }
  std::fprintf(text, "table       %s\n", printable(path).c_str());
  return true;
}

}  // namespace moescope
