#include "app/cli/sweep/sweep_table.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "app/cli/train/text_columns.h"
#include "core/io/words.h"
#include "core/training/engine/outcomes.h"

namespace moescope {
namespace {

std::string csv_figure(double value) {
  return std::isnan(value) ? "" : formatted("%.9g", value);
}

std::string text(double value, const char* format) {
  return figure_text(static_cast<float>(value), format);
}

bool has_sqnr(const SweepResult& result) {
  return std::ranges::any_of(result.points, [](const SweepPoint& point) { return !std::isnan(point.mean_sqnr.mean); });
}

// Returns a sentence on why the intervals of the gaps are widened; empty if only one setting is compared with the
// first.
std::string allowance(const SweepResult& result) {
  const auto compared = std::ssize(result.points) - 1;
  if (compared < 2) return {};
  return " These intervals are wider than that of a single comparison, as " + std::to_string(compared) +
         " settings are compared with one (Bonferroni): about 1 of 20 sweeps in which no setting has an effect reports "
         "a difference.";
}

}  // namespace

std::string sweep_notes(const SweepResult& result) {
  std::string notes = "Losses in nats/token: means over the last " +
                      std::to_string(std::min(kOutcomeSteps, result.steps)) + " of " + grouped(result.steps) +
                      " steps, then over seeds; MaxVio and tokens/s likewise, the validation loss as last measured.";
  if (result.seeds > 1)
    notes += std::string(
                 " +-: 95 % interval of the mean over seeds (Student's t). The gap to the first row is the mean "
                 "difference of the ") +
             (std::ranges::any_of(result.points, &SweepPoint::by_validation) ? "validation" : "training") +
             " losses of equal seeds, so that the effects of initial weights and batches cancel. A setting differs "
             "from the first by more than chance if the interval of its gap excludes 0." +
             allowance(result);
  else
    notes += " One seed each: it is not known how much of a difference is chance. --seeds 3 or more shows it.";
  if (has_sqnr(result))
    notes +=
        " SQNR: signal-to-quantization-noise ratio of the operands whose format differs from the first row's, the "
        "worst and the mean, as last measured.";
  const auto lost = std::ranges::count_if(result.points, [](const SweepPoint& point) { return point.lost > 0; });
  if (lost > 0) notes += " Runs whose loss became NaN or infinite are lost and not part of any mean.";
  return notes;
}

std::string sweep_report(const SweepResult& result) {
  std::vector<TextRow> rows(1);
  for (const SweepAxis& axis : result.axes) rows[0].push_back(axis.field->key);
  for (const SweepColumn& column : kSweepColumns) {
    rows[0].emplace_back(column.title);
    if (column.half_key) rows[0].emplace_back("+-");
  }
  rows[0].insert(rows[0].end(), {"lost", "seeds"});
  for (const SweepPoint& point : result.points) {
    TextRow& row = rows.emplace_back(point.values);
    for (const SweepColumn& column : kSweepColumns) {
      row.push_back(text((point.*column.figure).mean, column.format));
      if (column.half_key) row.push_back(text((point.*column.figure).half_width, "%.4f"));
    }
    row.insert(row.end(), {point.lost > 0 ? std::to_string(point.lost) : "-", std::to_string(point.ended)});
  }
  drop_empty_columns(rows);
  return aligned(rows) + sweep_notes(result) + '\n';
}

std::string sweep_csv(const SweepResult& result) {
  std::string csv;
  for (const SweepAxis& axis : result.axes) csv += axis.field->key + ',';
  csv += "seeds,lost";
  for (const SweepColumn& column : kSweepColumns)
    csv += std::string(",") + column.key + (column.half_key ? std::string(",") + column.half_key : "");
  for (int seed = 1; seed <= result.seeds; ++seed) csv += ",loss_nats_of_seed_" + std::to_string(seed);
  csv += '\n';
  for (const SweepPoint& point : result.points) {
    for (const std::string& value : point.values) csv += '"' + value + "\",";  // no value of a grid has a quote
    csv += std::to_string(point.ended) + ',' + std::to_string(point.lost);
    for (const SweepColumn& column : kSweepColumns)
      csv += ',' + csv_figure((point.*column.figure).mean) +
             (column.half_key ? ',' + csv_figure((point.*column.figure).half_width) : "");
    for (const double loss : point.losses) csv += ',' + csv_figure(loss);
    csv += '\n';
  }
  return csv;
}

}  // namespace moescope
