#include "core/lessons/claim_results.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/files/assets.h"
#include "core/files/text/toml_section.h"
#include "core/files/text/words.h"
#include "core/lessons/lesson_figures.h"
#include "core/lessons/run_pool.h"
#include "core/numerics/processor.h"
#include "core/numerics/threads.h"

namespace moescope {

namespace {

constexpr const char* kKeptResults = "claims/results.toml";

std::string number_list(std::span<const double> numbers) {
  const auto text = [](double value) { return std::isnan(value) ? std::string("nan") : fmt::format("{:#.7g}", value); };
  return "[" + joined(numbers, ", ", text) + "]";
}

ClaimResult read_result(TomlSection& section) {
  ClaimResult result;
  result.claim = section.required_text("claim");
  result.comparison = to_int(section.integer("comparison", 1, 1, 100)) - 1;
  result.settings = section.required_text("settings");
  result.steps = section.integer("steps", 0, 0, std::int64_t{1} << 40);
  for (const char* key : {"values", "gaps"}) section.require(key);
  result.values = section.numbers("values");
  result.gaps = section.numbers("gaps");
  if (result.values.size() != result.gaps.size()) section.problem("gaps", "must have as many numbers as values");
  return result;
}

const ClaimResult* result_of(const Claim& claim, std::size_t comparison, const ClaimResults& results) {
  const std::string settings = settings_digest(claim);
  const auto found = std::ranges::find_if(results.results, [&](const ClaimResult& result) {
    return result.claim == claim.name && result.comparison == to_int(comparison) && result.settings == settings;
  });
  return found == results.results.end() ? nullptr : &*found;
}

// Escapes "|", which would end the cell of the table.
std::string cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.replace(at, 1, "\\|");
  return text.empty() ? "-" : text;
}

}  // namespace

std::string to_toml(const ClaimResults& results) {
  std::string text =
      "# Written by moescope-cli claims.\ndate = \"" + results.date + "\"\nmachine = \"" + results.machine + "\"\n";
  for (const ClaimResult& result : results.results)
    text += fmt::format(
        "\n[[result]]\nclaim = \"{}\"\ncomparison = {}\nsettings = \"{}\"\nsteps = {}\nvalues = {}\ngaps = {}\n",
        result.claim, result.comparison + 1, result.settings, result.steps, number_list(result.values),
        number_list(result.gaps));
  return text;
}

ClaimResults parse_claim_results(std::string_view text, std::string_view file) {
  ClaimResults results;
  read_valid_toml(text, file, [&](TomlSection& root) {
    results.date = root.required_text("date");
    results.machine = root.required_text("machine");
    root.for_each_section("result", [&](TomlSection& result) { results.results.push_back(read_result(result)); });
  });
  return results;
}

const ClaimResults& kept_claim_results() {
  static const ClaimResults results = parse_claim_results(asset(kKeptResults), kKeptResults);
  return results;
}

const char* claim_verdict_words(ClaimVerdict verdict) {
  static constexpr const char* kWords[] = {"not tried", "agrees", "contradicts", "too small to see here"};
  return kWords[static_cast<int>(verdict)];
}

ClaimVerdict judge_claim(const ClaimComparison& comparison, const SeedMean& gap) {
  if (std::isnan(gap.mean)) return ClaimVerdict::not_tried;
  if (std::isnan(gap.half_width)) return ClaimVerdict::too_small;
  const double low = gap.mean - gap.half_width, high = gap.mean + gap.half_width;
  const bool above = low > 0, below = high < 0;
  if (comparison.expect == ClaimExpect::equal) {
    if (std::max(-low, high) <= comparison.within) return ClaimVerdict::agrees;
    return above || below ? ClaimVerdict::contradicts : ClaimVerdict::too_small;
  }
  const bool higher = comparison.expect == ClaimExpect::higher;
  if (higher ? above : below) return ClaimVerdict::agrees;
  return (higher ? below : above) ? ClaimVerdict::contradicts : ClaimVerdict::too_small;
}

std::string ClaimRow::gap_text() const {
  if (verdict == ClaimVerdict::not_tried) return {};
  const std::string half_width = std::isnan(gap.half_width) ? "" : fmt::format(" +-{:.4f}", gap.half_width);
  return fmt::format("{:+.4f}", gap.mean) + half_width + ", " + counted(pairs, "seed", "seeds");
}

std::vector<ClaimRow> claim_rows(std::span<const Claim> claims, const ClaimResults& results) {
  std::vector<ClaimRow> rows;
  for (const Claim& claim : claims)
    for (std::size_t i = 0; i < claim.comparisons.size(); ++i)
      rows.push_back({.claim = &claim, .comparison = &claim.comparisons[i], .result = result_of(claim, i, results)});
  const auto tried = std::ranges::count_if(rows, [](const ClaimRow& row) { return row.result != nullptr; });
  for (ClaimRow& row : rows) {
    if (!row.result) continue;
    row.gap = mean_over_seeds(row.result->gaps, 1 - 0.05 / tried);
    row.pairs = to_int(std::ranges::count_if(row.result->gaps, [](double gap) { return !std::isnan(gap); }));
    row.verdict = judge_claim(*row.comparison, row.gap);
  }
  return rows;
}

std::string claim_notes(std::span<const ClaimRow> rows, const ClaimResults& results) {
  const auto tried = std::ranges::count_if(rows, [](const ClaimRow& row) { return row.result != nullptr; });
  if (tried == 0) return {};
  return "Tried on " + results.date + " (" + results.machine +
         "). Each number is the mean difference of two runs of equal seed. +-: its interval by Student's t, wide "
         "enough for all " +
         counted(tried, "row", "rows") +
         " together (Bonferroni): if nothing differed, 1 of 20 such tables had an interval without 0. agrees: the "
         "whole interval is on the published side of 0, or within what counts as no difference. contradicts: it is on "
         "the other side, or shows a difference where none was published. too small to see here: neither. A small "
         "model, a short training and made-up text decide none of these claims for a large one.";
}

std::string claims_in_markdown(std::span<const ClaimRow> rows, const ClaimResults& results) {
  std::string text = "| claim | compared | source | published | here | verdict |\n|---|---|---|---|---|---|\n";
  const Claim* before = nullptr;
  for (const ClaimRow& row : rows) {
    const bool first = row.claim != before;
    before = row.claim;
    text += "| " + (first ? cell(row.claim->statement) : std::string()) + " | " + cell(row.comparison->text) + " | " +
            (first ? cell(row.claim->source) : std::string()) + " | " + cell(row.comparison->published) + " | " +
            cell(row.gap_text()) + " | " + claim_verdict_words(row.verdict) + " |\n";
  }
  const std::string notes = claim_notes(rows, results);
  return notes.empty() ? text : text + "\n" + notes + "\n";
}

namespace {

constexpr std::size_t kClaimArrayBytes = std::size_t{1} << 20;  // no comparison reads arrays

RunConfig with_seed(RunConfig config, int seed) {
  config.seed += seed;
  return config;
}

double figure_of(const PooledRun& run, const ClaimComparison& comparison) {
  if (!run.history) return NAN;
  ModelledGains none;
  RunFigure figure;
  figure.last = comparison.last;
  return run_figure(metric_info(comparison.metric).key, figure, *run.history, none).value_or(NAN);
}

ClaimResult measure(const Claim& claim, std::size_t index, const RunPool& runs) {
  const ClaimComparison& comparison = claim.comparisons[index];
  ClaimResult result{claim.name, to_int(index), settings_digest(claim), claim.steps, {}, {}};
  const auto value = [&](int run, int seed) {
    const RunConfig& config = claim.runs[run];
    return figure_of(runs.find(with_seed(config, seed), claim.steps), comparison);
  };
  for (int seed = 0; seed < claim.seeds; ++seed) {
    result.values.push_back(value(comparison.against, seed));
    result.gaps.push_back(value(comparison.run, seed) - result.values.back());
  }
  return result;
}

std::string today() {
  const std::chrono::year_month_day date(std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now()));
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                     static_cast<unsigned>(date.day()));
}

}  // namespace

ClaimResults try_claims(std::span<const Claim> claims, const std::function<void(int, int)>& progress) {
  RunPool runs(kClaimArrayBytes);
  for (const Claim& claim : claims)
    for (int seed = 0; seed < claim.seeds; ++seed)
      for (const RunConfig& config : claim.runs) runs.add(with_seed(config, seed), claim.steps);
  runs.train(progress);
  runs.require_no_failure();
  ClaimResults results{today(), counted(num_threads(), "thread", "threads") + ", " + kernels_text(true), {}};
  for (const Claim& claim : claims)
    for (std::size_t i = 0; i < claim.comparisons.size(); ++i) results.results.push_back(measure(claim, i, runs));
  return results;
}

}  // namespace moescope
