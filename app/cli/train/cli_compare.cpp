#include "app/cli/train/cli_compare.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace moescope {
namespace {

constexpr std::int64_t kLastSteps = 100;  // over which the table's means are taken

std::string figure(float value, const char* format, double factor = 1) {
  if (is_missing(value)) return "-";
  char text[32];
  std::snprintf(text, sizeof text, format, factor * static_cast<double>(value));
  return text;
}

std::string settings_of(const RunConfig& first, const RunConfig& config) {
  std::string text;
  for (const ConfigDifference& found : difference(first, config))
    text += (text.empty() ? "" : ", ") + found.key + " = " + found.b;
  return text;
}

using Row = std::vector<std::string>;

// Without the columns that hold nothing in this comparison.
void drop_empty_columns(std::vector<Row>& rows) {
  for (std::size_t c = rows.front().size(); c-- > 0;) {
    const bool empty = std::all_of(rows.begin() + 1, rows.end(), [c](const Row& row) { return row[c] == "-"; });
    if (!empty) continue;
    for (Row& row : rows) row.erase(row.begin() + static_cast<std::ptrdiff_t>(c));
  }
}

// Columns as wide as their widest cell; the first and the last to the left, figures to the right.
std::string aligned(const std::vector<Row>& rows) {
  std::vector<std::size_t> width(rows.front().size(), 0);
  for (const Row& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], row[c].size());
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string space(width[c] - row[c].size(), ' ');
      const bool left = c == 0 || c + 1 == row.size();
      if (c > 0) line += "  ";
      line += left ? row[c] : space;
      line += left ? space : row[c];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line;
    text += '\n';
  }
  return text;
}

std::string table(std::span<const HistoryPtr> histories, std::span<const RunConfig> configs, StepRange window) {
  std::vector<Row> rows = {{"run", "loss", "mean loss", "MaxVio", "tokens/s", "SQNR dB", "flips %", "by rounding %",
                            "grad cos", "differs in"}};
  for (std::size_t i = 0; i < histories.size(); ++i) {
    const RunFigures f = run_figures(*histories[i], window);
    std::string name(1, static_cast<char>('A' + i));
    name += ' ';
    name += f.name;
    rows.push_back({name, figure(f.final_loss, "%.4f"), figure(f.mean_loss, "%.4f"), figure(f.max_vio, "%.3f"),
                    figure(f.tokens_per_s, "%.0f"), figure(f.sqnr_db, "%.1f"), figure(f.flip_rate, "%.2f", 100),
                    figure(f.rounding_flip_rate, "%.2f", 100), figure(f.gradient_cosine, "%.5f"),
                    settings_of(configs.front(), configs[i])});
  }
  drop_empty_columns(rows);
  return aligned(rows);
}

}  // namespace

std::string comparison_report(std::span<const HistoryPtr> histories, std::span<const RunConfig> configs,
                              double epsilon) {
  const StepRange window = last_common_steps(histories, kLastSteps);
  if (window.empty()) return {};
  const auto paired = [&](std::size_t i) { return PairedRun{histories[i], same_start(configs.front(), configs[i])}; };
  std::vector<PairedRun> twins;
  for (std::size_t i = 1; i < histories.size(); ++i)
    if (is_noise_twin(configs.front(), configs[i])) twins.push_back(paired(i));

  std::string text = "Comparison after " + std::to_string(window.last + 1) + " steps; means over the last " +
                     std::to_string(window.size()) + ", loss in nats/token\n" + table(histories, configs, window);
  for (std::size_t i = 1; i < histories.size(); ++i) {
    const HistoryPtr& other = histories[i];
    const auto first = first_difference(*histories.front(), *other, epsilon);
    text += other->info().name + ": ";
    text += first ? "first step with a loss difference above " + to_string(ConfigValue(epsilon)) + ": " +
                        std::to_string(*first)
                  : "no loss difference above " + to_string(ConfigValue(epsilon));
    text += '\n';
    if (is_noise_twin(configs.front(), configs[i])) continue;
    text += conclude(histories.front(), paired(i), twins).text + '\n';
    const Conclusion validation = conclude(histories.front(), paired(i), twins, kMatters, Metric::val_loss);
    if (!is_missing(validation.gap)) text += validation.text + '\n';
  }
  if (!twins.empty())
    text +=
        "Gaps are means of paired losses over the last half of the steps, with 95 % intervals by the noise twins of "
        "the "
        "same start, or else by those of another seed; " +
        to_string(ConfigValue(100 * kMatters)) + " % of the first run's loss counts as a difference that matters.\n";
  else
    text += "Add --perturbed-twin or --noise-twin to see how much of a difference is noise.\n";
  return text;
}

}  // namespace moescope
