#include <fmt/core.h>

#include <algorithm>

#include "core/files/text/words.h"
#include "core/findings/comparison/regression_gate.h"

namespace moescope {
namespace {

std::string runs_in_words(std::size_t good_runs) {
  return good_runs == 1 ? "the good run" : fmt::format("the {} good runs", good_runs);
}

std::string problem_text(const GateReport& report) {
  switch (report.problem) {
    case GateProblem::no_common_steps:
      return "The run and " + runs_in_words(report.good_runs()) + " have no step in common.";
    case GateProblem::few_steps:
      return fmt::format("The runs have {} in common; a verdict needs {} with values.",
                         counted(report.common_steps, "step", "steps"), kMinGateSteps);
    case GateProblem::no_common_figures:
      return "The runs have no figure in common.";
    case GateProblem::good_run_not_finite:
      return "The loss of " + report.good_names[report.bad_good_run] +
             " is NaN or infinite at a common step; a good run has a finite loss.";
    case GateProblem::none:
      return {};
  }
  return {};
}

// Returns the first exit that decides the verdict. There must be one.
const GateExit& deciding_exit(const GateReport& report) {
  const auto decides = [&](const GateExit& exit) {
    if (report.verdict == GateVerdict::regressed)
      return exit.not_finite_step || (exit.is_worse && report.series[exit.series].figure.worst);
    return exit.is_worse || report.verdict == GateVerdict::better;
  };
  return *std::ranges::find_if(report.exits, decides);
}

}  // namespace

std::string figure_text(const GateFigure& figure) {
  const std::string name = figure.info->name;
  if (figure.operand) return name + ", " + place_text(*figure.operand);
  return figure.layer == kWholeRun ? name : fmt::format("{}, layer {}", name, figure.layer);
}

std::string exit_text(const GateReport& report, const GateExit& exit) {
  const GateFigure& figure = report.series[exit.series].figure;
  std::string text = figure_text(figure) + ": ";
  if (exit.not_finite_step) {
    text += "not finite at step " + grouped(*exit.not_finite_step);
    return exit.times.size() == 1 ? text : text + ", outside before it since step " + grouped(exit.first_step());
  }
  text += decimal(exit.value) + ", good runs " + decimal(exit.good);
  text += exit.half_width > 0 ? " ± " + decimal(exit.half_width) : " without any spread";
  text += exit.is_over || exit.times.size() > 1
              ? ", outside in steps " + grouped(exit.first_step()) + " to " + grouped(exit.last_step())
              : ", outside since step " + grouped(exit.first_step());
  if (exit.times.size() > 1) text += fmt::format(", {} times", exit.times.size());
  if (exit.apart_since < exit.first_step()) text += ", apart since step " + grouped(exit.apart_since);
  if (figure.worst && !exit.is_worse) text += ", better";
  if (exit.expert >= 0)
    text += fmt::format("; expert {} gets {} times its fair share", exit.expert, decimal(exit.expert_load));
  return text;
}

std::string setting_text(const GateSetting& setting, const std::string& good) {
  const bool is_equal = !setting.differs_among_good;
  std::string text = setting.name + ": " + setting.value + " (" + good + ": " +
                     (is_equal ? setting.good.front() : joined(setting.good, ", ")) + ")";
  if (setting.changed_at) text += ", since step " + grouped(*setting.changed_at);
  return is_equal ? text : text + " (differs between the " + good + ", too)";
}

std::string gate_sentence(const GateReport& report) {
  if (report.verdict == GateVerdict::too_early) return problem_text(report);
  if (report.verdict == GateVerdict::same)
    return "All " + counted(std::ssize(report.series), "figure", "figures") + " stay in the band of " +
           runs_in_words(report.good_runs()) + ".";
  const GateExit& first = deciding_exit(report);
  const auto better_figures =
      report.verdict == GateVerdict::better ? 0 : std::ranges::count(report.exits, false, &GateExit::is_worse);
  const std::string better =
      better_figures == 0 ? ""
                          : fmt::format(" {} better.", counted(better_figures, "other figure is", "other figures are"));
  return fmt::format("First outside the band of {} at step {}. {}.{}", runs_in_words(report.good_runs()),
                     grouped(first.first_step()), exit_text(report, first), better);
}

std::vector<std::string> gate_notes(const GateReport& report) {
  std::vector<std::string> notes;
  notes.push_back(std::string("Paired by ") +
                  (report.by_tokens ? "tokens, because the runs have batches of different size" : "step") + ": " +
                  counted(report.common_steps, "common step", "common steps") + ".");
  if (report.other_text_from <= report.steps.last)
    notes.push_back("From step " + grouped(report.other_text_from) +
                    " on the runs read different text: the training loss is compared before it only, and other figures "
                    "may differ because the text does.");
  if (report.verdict == GateVerdict::too_early) return notes;
  notes.push_back(
      fmt::format("Of 20 comparisons of equal runs about 1 has a figure outside its band: the limit allows for all {} "
                  "figures and layers, on both sides.",
                  report.series.size()));
  const auto name_of = [&](std::size_t run) { return report.good_names[run]; };
  if (!report.repeated_runs.empty())
    notes.push_back("Not counted, because another good run has the same values: " +
                    joined(report.repeated_runs, ", ", name_of) + ".");
  if (report.good_runs() == 1)
    notes.push_back(
        "One good run does not show how far equal runs lie apart. The band is that of its own variation, "
        "widened as in small models; a second good run would measure it.");
  return notes;
}

}  // namespace moescope
