#include "core/training/engine/sweep.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "core/config/config_check.h"
#include "core/config/config_difference.h"
#include "core/files/text/words.h"
#include "core/findings/comparison/comparison.h"
#include "core/findings/comparison/operand_sqnr.h"
#include "core/findings/comparison/outcomes.h"
#include "core/findings/comparison/training_recipe.h"
#include "core/findings/comparison/verdict.h"
#include "core/findings/comparison/verdict_words.h"
#include "core/numerics/statistics.h"

namespace moescope {
namespace {

std::size_t grid_size(std::span<const SweepAxis> axes) {
  std::size_t points = 1;
  for (const SweepAxis& axis : axes) points = std::min(points * axis.values.size(), kMaxSweepRuns + 1);
  return points;
}

// Returns the index on each axis of a point of the grid; the last axis changes fastest.
std::vector<std::size_t> places_of(std::size_t point, std::span<const SweepAxis> axes) {
  std::vector<std::size_t> places(axes.size());
  for (std::size_t a = axes.size(); a-- > 0; point /= axes[a].values.size()) places[a] = point % axes[a].values.size();
  return places;
}

RunConfig config_of(const RunConfig& base, std::size_t point, std::span<const SweepAxis> axes) {
  RunConfig config = base;
  const std::vector<std::size_t> places = places_of(point, axes);
  for (std::size_t a = 0; a < axes.size(); ++a) axes[a].field->set(config, axes[a].values[places[a]]);
  return config;
}

// Compared figures of one run; NaN: not known.
struct Measured {
  double loss = kNoValue, val_loss = kNoValue, max_vio = kNoValue, tokens_per_s = kNoValue;
  double worst_sqnr = kNoValue, mean_sqnr = kNoValue;
};

// Returns the history of a run; nullptr if the run has not ended.
HistoryPtr history_of(const RunGroup& run) {
  return run.finished ? run.histories.front() : nullptr;
}

Measured measured(const RunGroup& run, std::int64_t steps) {
  const HistoryPtr history = history_of(run);
  if (!history || has_lost_its_loss(*history)) return {};
  const StepRange last{std::max<std::int64_t>(0, steps - kOutcomeSteps), steps - 1};
  const RunFigures figures = run_figures(*history, last);
  return {static_cast<double>(figures.mean_loss),
          static_cast<double>(history->value_at(Metric::val_loss, kWholeRun, last.last)),
          static_cast<double>(figures.max_vio), static_cast<double>(figures.tokens_per_s)};
}

// Sets the SQNR of the runs of one seed, compared with each other; the first point is run A.
void add_sqnr(std::span<const RunGroup> runs, std::int64_t steps, std::span<Measured> found) {
  std::vector<HistoryPtr> histories;
  std::vector<Measured*> measured_runs;
  for (std::size_t i = 0; i < runs.size(); ++i)
    if (history_of(runs[i])) {
      histories.push_back(history_of(runs[i]));
      measured_runs.push_back(&found[i]);
    }
  if (histories.empty() || !history_of(runs.front())) return;
  const std::vector<OperandSqnr> sqnr = operand_sqnr(histories, steps - 1);
  for (std::size_t i = 0; i < measured_runs.size(); ++i) {
    measured_runs[i]->worst_sqnr = sqnr[i].worst_db;
    measured_runs[i]->mean_sqnr = sqnr[i].mean_db;
  }
}

// True if the settings of all runs measure the validation loss. All runs decide together, so that all gaps are gaps of
// the same loss.
bool all_validate(std::span<const RunGroup> runs, std::int64_t steps) {
  return std::ranges::all_of(runs, [=](const RunGroup& run) {
    const int interval = run.runs.front().telemetry.validation_every;
    return interval > 0 && interval < steps;
  });
}

}  // namespace

SeedMean mean_over_seeds(std::vector<double> values, double inside) {
  std::erase_if(values, [](double value) { return std::isnan(value); });
  if (values.empty()) return {};
  const FigureOfPieces found = figure_of_pieces(values, inside);
  return {found.mean, found.interval};
}

SweepAxis parse_sweep_axis(const std::string& text) {
  const auto refuse = [&](const std::string& reason) { throw std::runtime_error(text + ": " + reason); };
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) refuse("expected KEY=VALUE,VALUE,..., such as router.top_k=1,2,4");
  const std::string key = text.substr(0, equals);
  SweepAxis axis{find_field(key), {}};
  if (!axis.field) refuse("no such key, did you mean " + nearest_key(key) + "?");
  if (key == "seed") refuse("the seed is not an axis: --seeds sets the number of seeds of each point");
  std::istringstream list(text.substr(equals + 1));
  for (std::string value; std::getline(list, value, ',');) {
    try {
      axis.values.push_back(parse_value(*axis.field, value));
    } catch (const std::invalid_argument& problem) {
      refuse(key + ' ' + problem.what());
    }
    if (std::ranges::count(axis.values, axis.values.back()) > 1) refuse(value + " is there twice");
  }
  if (axis.values.empty()) refuse("no value of " + key);
  return axis;
}

std::vector<RunGroup> sweep_groups(const RunConfig& base, std::span<const SweepAxis> axes, int seeds,
                                   const std::string& recording) {
  for (std::size_t a = 0; a < axes.size(); ++a)
    for (std::size_t b = 0; b < a; ++b)
      if (axes[a].field == axes[b].field) throw std::runtime_error(axes[a].field->key + " is given twice");
  const std::size_t points = grid_size(axes);
  if (points * seeds > kMaxSweepRuns)
    throw std::runtime_error(fmt::format("the grid has more than {} runs", kMaxSweepRuns));
  std::vector<RunGroup> groups;
  std::vector<RunConfig> named;
  for (int seed = 0; seed < seeds; ++seed) {
    for (std::size_t point = 0; point < points; ++point) {
      RunConfig config = config_of(base, point, axes);
      config.seed = base.seed + seed;
      if (!difference(base, config).empty()) config.name = free_name(twin_name(base, config), named);
      if (const auto problems = validate(config); !problems.empty())
        throw std::runtime_error(config.name + ": " + joined(problems, "\n", &ConfigProblem::text));
      named.push_back(config);
      groups.push_back({{std::move(config)}, path_of_group(recording, to_int(groups.size()) + 1)});
    }
  }
  return groups;
}

std::vector<SweepPoint> sweep_points(std::span<const RunGroup> runs, std::span<const SweepAxis> axes,
                                     std::int64_t steps) {
  const std::size_t n = grid_size(axes);
  std::vector<Measured> run_measures;
  for (const RunGroup& run : runs) run_measures.push_back(measured(run, steps));
  for (std::size_t seed = 0; seed + n <= runs.size(); seed += n)
    add_sqnr(runs.subspan(seed, n), steps, std::span(run_measures).subspan(seed, n));
  const bool by_validation = all_validate(runs, steps);
  double Measured::*const compared = by_validation ? &Measured::val_loss : &Measured::loss;
  const double inside = 1 - 0.05 / std::max<std::size_t>(1, n - 1);
  std::vector<SweepPoint> points(n);
  for (std::size_t point = 0; point < n; ++point) {
    SweepPoint& found = points[point];
    const std::vector<std::size_t> places = places_of(point, axes);
    for (std::size_t a = 0; a < axes.size(); ++a) found.values.push_back(to_string(axes[a].values[places[a]]));
    std::vector<double> gaps;
    for (std::size_t i = point; i < runs.size(); i += n) {
      found.ended += history_of(runs[i]) != nullptr;
      found.lost += history_of(runs[i]) && has_lost_its_loss(*history_of(runs[i]));
      found.losses.push_back(run_measures[i].loss);
      if (point > 0) gaps.push_back(run_measures[i].*compared - run_measures[i - point].*compared);
    }
    const auto over_seeds = [&](double Measured::*figure) {
      std::vector<double> values;
      for (std::size_t i = point; i < runs.size(); i += n) values.push_back(run_measures[i].*figure);
      return mean_over_seeds(std::move(values));
    };
    found.loss = over_seeds(&Measured::loss);
    found.val_loss = over_seeds(&Measured::val_loss);
    found.max_vio = over_seeds(&Measured::max_vio);
    found.tokens_per_s = over_seeds(&Measured::tokens_per_s);
    found.worst_sqnr = over_seeds(&Measured::worst_sqnr);
    found.mean_sqnr = over_seeds(&Measured::mean_sqnr);
    found.gap = mean_over_seeds(std::move(gaps), inside);
    found.by_validation = by_validation;
  }
  return points;
}

namespace {

// Returns what the interval of the gap to the first point says.
VerdictWord word_of(const SweepPoint& first, const SweepPoint& point) {
  if (std::isnan(point.gap.half_width)) return VerdictWord::not_judged;
  const SeedMean& loss = point.by_validation ? first.val_loss : first.loss;
  Conclusion c;
  c.verdict = verdict_of_interval(point.gap.mean, point.gap.half_width, kRelevantGap * loss.mean);
  return verdict_word(c);
}

}  // namespace

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
