#include "app/cli/train/cli_outcomes.h"

#include <stdexcept>
#include <vector>

#include "app/cli/printing.h"
#include "core/config/config_difference.h"
#include "core/config/config_field.h"
#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"
#include "core/files/whole_file.h"
#include "core/findings/comparison/verdict_words.h"

namespace moescope {
namespace {

ValueTable table_of(std::span<const Outcome> outcomes) {
  ValueTable table({{.name = "candidate"},
                    {.name = "loss", .format = ".4f"},
                    {.name = "mean loss", .format = ".4f"},
                    {.name = "gap to A", .format = "+.4f"},
                    {.name = "+-", .format = ".4f"},
                    {.name = "verdict"},
                    {.name = "gradient error", .unit = "share", .format = ".2f"},
                    {.name = "flips", .unit = "share", .format = ".2f"},
                    {.name = "by rounding", .unit = "share", .format = ".2f"},
                    {.name = "underflow", .unit = "share", .format = ".2f"},
                    {.name = "worst SQNR", .unit = "dB", .format = ".1f"},
                    {.name = "mean", .unit = "dB", .format = ".1f"},
                    {.name = "MaxVio", .format = ".3f"},
                    {.name = "tokens/s", .format = ".0f"},
                    {.name = "group"},
                    {.name = "differs in"}});
  for (const Outcome& o : outcomes)
    table.add(o.name, o.figures.final_loss, o.figures.mean_loss, o.conclusion.gap, o.conclusion.half, verdict_words(o),
              o.costs.gradient_error, o.figures.flip_rate, o.costs.flips, o.costs.flushed, o.sqnr.worst_db,
              o.sqnr.mean_db, o.figures.max_vio, o.figures.tokens_per_s,
              o.differs.empty() ? "all" : fmt::format("{}", o.group), o.differs);
  return table;
}

}  // namespace

std::string outcomes_report(std::span<const Outcome> outcomes) {
  if (outcomes.empty()) return {};
  std::string text = fmt::format(
      "Outcomes, losses in nats/token; loss, flips and speed over the last {} steps, the rest as last measured\n{}",
      kOutcomeSteps, to_text(table_of(outcomes)));
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
  if (has_sqnr) text += fmt::format("{}\n", kSqnrNote);
  text += fmt::format("Gaps are means of paired {} losses over the last half of the steps",
                      validates ? "validation" : "training");
  if (!has_twin) return text + ". Add --perturbed-twin or --noise-twin to see how much of a gap is noise.\n";
  return text + fmt::format(
                    ", with 95 % intervals by the noise twins; {} % of run A's loss counts as a difference that "
                    "matters.\n",
                    shortest(100 * kMatters));
}

void check_table_name(const std::string& path) {
  if (!path.empty() && !path.ends_with(".csv") && !path.ends_with(".json"))
    throw std::runtime_error(fmt::format("--table {}: expected a name that ends in .csv or .json", path));
}

bool write_table(const std::string& path, std::span<const Outcome> outcomes, std::FILE* text) {
  try {
    const ValueTable table = outcomes_table(outcomes);
    write_whole_file(path, path.ends_with(".json") ? json_rows(table).dump(2) + '\n' : to_csv(table));
  } catch (const std::runtime_error& error) {
    print_to(stderr, "moescope-cli: error: --table {}\n", printable(error.what()));
    return false;
  }
  print_to(text, "table       {}\n", printable(path));
  return true;
}

}  // namespace moescope
