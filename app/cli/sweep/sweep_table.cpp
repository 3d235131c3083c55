#include "app/cli/sweep/sweep_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/files/text/words.h"
#include "core/findings/comparison/training_recipe.h"
#include "core/findings/comparison/verdict_words.h"
#include "core/training/engine/outcomes.h"

namespace moescope {
namespace {

// A figure of the tables: its title, and the keys of its CSV columns.
struct SweepColumn {
  const char *title, *key, *half_key;  // half_key: half the interval over seeds; nullptr: not shown
  SeedMean SweepPoint::*figure;
  const char* format;
};
constexpr SweepColumn kSweepColumns[] = {
    {"loss", "loss_nats", "loss_interval", &SweepPoint::loss, ".4f"},
    {"gap to the first", "gap_to_first_nats", "gap_interval", &SweepPoint::gap, "+.4f"},
    {"validation loss", "validation_loss_nats", "validation_loss_interval", &SweepPoint::val_loss, ".4f"},
    {"lowest SQNR, dB", "sqnr_worst_db", nullptr, &SweepPoint::worst_sqnr, ".1f"},
    {"mean SQNR, dB", "sqnr_mean_db", nullptr, &SweepPoint::mean_sqnr, ".1f"},
    {"MaxVio", "max_vio", nullptr, &SweepPoint::max_vio, ".3f"},
    {"tokens/s", "tokens_per_s", nullptr, &SweepPoint::tokens_per_s, ".0f"},
};

// Returns a row for each point. `in_file`: with the names of the CSV, and with the loss of each seed.
ValueTable table_of(const SweepResult& result, bool in_file) {
  std::vector<ValueColumn> columns;
  for (const SweepAxis& axis : result.axes) columns.push_back({axis.field->key});
  columns.insert(columns.end(), {{"seeds"}, {"lost"}});
  for (const SweepColumn& column : kSweepColumns) {
    columns.push_back({.name = in_file ? column.key : column.title, .format = column.format});
    if (column.half_key) columns.push_back({.name = in_file ? column.half_key : "+-", .format = ".4f"});
  }
  for (int seed = 1; in_file && seed <= result.seeds; ++seed)
    columns.push_back({fmt::format("loss_nats_of_seed_{}", seed)});
  ValueTable table(columns);
  for (const SweepPoint& point : result.points) {
    std::vector<TableValue> row(point.values.begin(), point.values.end());
    row.push_back(table_value(point.ended));
    row.push_back(in_file || point.lost > 0 ? table_value(point.lost) : TableValue());
    for (const SweepColumn& column : kSweepColumns) {
      row.push_back(unless_nan((point.*column.figure).mean));
      if (column.half_key) row.push_back(unless_nan((point.*column.figure).half_width));
    }
    if (in_file)
      for (const double loss : point.losses) row.push_back(unless_nan(loss));
    table.add_row(row);
  }
  return table;
}

// Returns why the intervals of the gaps are widened; empty if only one setting is compared with the first.
std::string allowance(const SweepResult& result) {
  const auto compared = std::ssize(result.points) - 1;
  if (compared < 2) return {};
  return fmt::format(
      " These intervals are wider than that of a single comparison, as {} settings are compared with one (Bonferroni): "
      "about 1 of 20 sweeps in which no setting has an effect reports a difference.",
      compared);
}

// Returns what the interval of the gap to the first point says.
VerdictWord word_of(const SweepPoint& first, const SweepPoint& point) {
  if (std::isnan(point.gap.half_width)) return VerdictWord::not_judged;
  const SeedMean& loss = point.by_validation ? first.val_loss : first.loss;
  Conclusion c;
  c.verdict = verdict_of_interval(point.gap.mean, point.gap.half_width, kRelevantGap * loss.mean);
  return verdict_word(c);
}

// Returns the sentences below the table: over which steps and seeds the figures are taken, what the intervals mean.
std::string sweep_notes(const SweepResult& result) {
  std::string notes = fmt::format(
      "Losses in nats/token: means over the last {} of {} steps, then over seeds; MaxVio and tokens/s likewise, the "
      "validation loss as last measured.",
      std::min(kOutcomeSteps, result.steps), grouped(result.steps));
  if (result.seeds > 1)
    notes += fmt::format(
        " +-: 95 % interval of the mean over seeds (Student's t). The gap to the first row is the mean difference of "
        "the {} losses of equal seeds, so that the effects of initial weights and batches cancel. A setting differs "
        "from the first by more than chance if the interval of its gap excludes 0.{}",
        std::ranges::any_of(result.points, &SweepPoint::by_validation) ? "validation" : "training", allowance(result));
  else
    notes += " One seed each: it is not known how much of a difference is chance. --seeds 3 or more shows it.";
  if (std::ranges::any_of(result.points, [](const SweepPoint& point) { return !std::isnan(point.mean_sqnr.mean); }))
    notes +=
        " SQNR: signal-to-quantization-noise ratio of the operands whose format differs from the first row's, the "
        "lowest and the mean, as last measured.";
  const auto lost = std::ranges::count_if(result.points, [](const SweepPoint& point) { return point.lost > 0; });
  if (lost > 0) notes += " Runs whose loss became NaN or infinite are lost and not part of any mean.";
  return notes;
}

}  // namespace

void add_sweep(Report& report, const SweepResult& result) {
  report.table("", table_of(result, false));
  report.sentence(sweep_notes(result));
}

std::string sweep_csv(const SweepResult& result) {
  return to_csv(table_of(result, true));
}

std::string sweep_recipes(const SweepResult& result, std::span<const RunGroup> runs) {
  nlohmann::json recipes = nlohmann::json::array();
  for (std::size_t i = 0; i < result.points.size(); ++i) {
    const SweepPoint& point = result.points[i];
    nlohmann::json& recipe = recipes.emplace_back(training_recipe(runs[i].runs.front()));
    for (std::size_t axis = 0; axis < result.axes.size(); ++axis)
      recipe["settings"][result.axes[axis].field->key] = point.values[axis];
    recipe["evidence"] = {{"loss", point.by_validation ? "val_loss" : "ce_loss"},
                          {"gap_to_first", point.gap.mean},
                          {"interval", point.gap.half_width},
                          {"steps", result.steps},
                          {"seeds", point.ended},
                          {"lost", point.lost}};
    if (i > 0) recipe["evidence"]["verdict"] = to_text(word_of(result.points.front(), point));
  }
  return nlohmann::json{{"baseline", "the first recipe"}, {"recipes", std::move(recipes)}}.dump(2) + '\n';
}

}  // namespace moescope
