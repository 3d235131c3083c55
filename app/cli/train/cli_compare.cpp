#include "app/cli/train/cli_compare.h"

#include <cmath>
#include <optional>

#include "app/cli/train/text_columns.h"
#include "core/comparison/run_letters.h"
#include "core/config/config_difference.h"
#include "core/config/config_field.h"
#include "core/training/engine/outcomes.h"

namespace moescope {
namespace {

std::string table(std::span<const HistoryPtr> histories, std::span<const RunConfig> configs, StepRange window) {
  const std::vector<OperandSqnr> sqnr = operand_sqnr(histories, window.last);
  std::vector<TextRow> rows = {{"run", "loss", "mean loss", "MaxVio", "tokens/s", "SQNR dB, worst", "mean", "flips %",
                                "by rounding %", "grad cos", "differs in"}};
  std::vector<bool> twins;
  for (const RunConfig& config : configs) twins.push_back(!twins.empty() && is_noise_twin(configs.front(), config));
  for (std::size_t i = 0; i < histories.size(); ++i) {
    const RunFigures f = run_figures(*histories[i], window);
    const std::string name = run_letter(twins, i) + ' ' + f.name;
    rows.push_back({name, figure_text(f.final_loss, "%.4f"), figure_text(f.mean_loss, "%.4f"),
                    figure_text(f.max_vio, "%.3f"), figure_text(f.tokens_per_s, "%.0f"),
                    figure_text(sqnr[i].worst_db, "%.1f"), figure_text(sqnr[i].mean_db, "%.1f"),
                    figure_text(f.flip_rate, "%.2f", 100), figure_text(f.rounding_flip_rate, "%.2f", 100),
                    figure_text(f.gradient_cosine, "%.5f"), differing_settings(configs.front(), configs[i])});
  }
  drop_empty_columns(rows);
  const bool quantized = std::ranges::any_of(sqnr, [](const OperandSqnr& of) { return of.operands > 0; });
  return aligned(rows) + (quantized ? kSqnrNote + std::string("\n") : std::string());
}

std::string gap_text(const Conclusion& c) {
  return figure_text(c.gap, "%+.4f") + (is_missing(c.half) ? "" : " +-" + figure_text(c.half, "%.2g"));
}

// Describes the share of routing in the gap of a twin that replays run A's routing, beside a twin that differs in
// nothing else. Replay often narrows the interval, so that a gap due to arithmetic shows where the gap due to both does
// not.
std::string routing_share(const PairedRun& replaying, const PairedRun& choosing, const HistoryPtr& a,
                          std::span<const PairedRun> twins, const Judging& judging) {
  const Conclusion with = conclude(a, replaying, twins, judging, Metric::ce_loss),
                   without = conclude(a, choosing, twins, judging, Metric::ce_loss);
  if (is_missing(with.gap) || is_missing(without.gap)) return {};
  std::string text = "Of the loss gap " + gap_text(without) + " of " + choosing.run->info().name + ", " +
                     gap_text(with) + " nats/token remain with replay (arithmetic), " +
                     figure_text(without.gap - with.gap, "%+.4f") + " go with the routing";
  if (!is_missing(without.half) && std::fabs(without.gap - with.gap) < without.half)
    text += ", no more than chance can make";
  return text + '\n';
}

// The gap of the training loss, where the validation loss decides: ": training loss gap +0.012 +-0.005 nats/token; the
// validation loss decides". Empty: the training loss decides.
std::string beside_what_decides(const HistoryPtr& a, const PairedRun& run, std::span<const PairedRun> twins,
                                const Judging& judging) {
  if (deciding_loss(*a, *run.run) == Metric::ce_loss) return {};
  const Conclusion training = conclude(a, run, twins, judging, Metric::ce_loss);
  if (is_missing(training.gap)) return {};
  return run.run->info().name + ": training loss gap " + gap_text(training) +
         " nats/token; the validation loss decides, as it is measured\n";
}

// The run that differs from run `i` in nothing but replay.
std::optional<std::size_t> choosing_for_itself(std::span<const RunConfig> configs, std::size_t i) {
  for (std::size_t own = 1; own < configs.size(); ++own) {
    const auto found = difference(configs[own], configs[i]);
    if (found.size() == 1 && found.front().setting == &RouterConfig::replay) return own;
  }
  return {};
}

}  // namespace

std::string comparison_report(std::span<const HistoryPtr> histories, std::span<const RunConfig> configs,
                              double epsilon) {
  const StepRange window = last_common_steps(histories, kOutcomeSteps);
  if (window.empty()) return {};
  const auto paired = [&](std::size_t i) { return PairedRun{histories[i], same_start(configs.front(), configs[i])}; };
  std::vector<PairedRun> twins;
  for (std::size_t i = 1; i < histories.size(); ++i)
    if (is_noise_twin(configs.front(), configs[i])) twins.push_back(paired(i));
  const Judging judging{kMatters, static_cast<int>(histories.size() - 1 - twins.size())};

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
    if (const std::string routing = to_text(routing_overlap(*other, window.last)); !routing.empty())
      text += other->info().name + ": " + routing + '\n';
    if (const auto own = choosing_for_itself(configs, i); own && configs[i].router.replay)
      text += routing_share(paired(i), paired(*own), histories.front(), twins, judging);
    if (is_noise_twin(configs.front(), configs[i])) continue;
    text += conclude(histories.front(), paired(i), twins, judging).text + '\n' +
            beside_what_decides(histories.front(), paired(i), twins, judging);
  }
  if (!twins.empty())
    text +=
        "Gaps are means of paired losses over the last half of the steps, of the validation loss where it is measured "
        "(telemetry.validation_every), with 95 % intervals by the noise twins of the same start, or else by those of "
        "another seed; " +
        to_string(ConfigValue(100 * kMatters)) + " % of the first run's loss counts as a difference that matters.\n";
  else
    text += "Add --perturbed-twin or --noise-twin to see how much of a difference is noise.\n";
  return text;
}

}  // namespace moescope
