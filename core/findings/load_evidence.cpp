#include "core/findings/load_evidence.h"

#include <fmt/core.h>

#include <cmath>
#include <vector>

#include "core/files/text/words.h"

namespace moescope {

std::int64_t LoadSpan::needed(std::int64_t steps) const {
  const double in_steps = std::ceil(steps / interval() - 1e-9);
  return std::clamp(static_cast<std::int64_t>(in_steps), std::min(kMinLoads, steps), steps);
}

std::string interval_text(const LoadSpan& span) {
  const double interval = span.interval();
  const auto whole = static_cast<std::int64_t>(std::round(interval));
  const std::string interval_text = whole == 1 ? "every step" : "every " + grouped(whole) + " steps";
  return (std::fabs(interval - whole) < 1e-6 ? "one " : "about one ") + interval_text;
}

std::string loads_text(const LoadSpan& span) {
  if (span.loads < 2) return counted(span.loads, "load", "loads");
  if (span.last - span.first == span.loads - 1) return counted(span.loads, "step", "steps");
  return counted(span.loads, "load", "loads") + ", " + interval_text(span);
}

std::string window_text(const LoadSpan& span) {
  const bool is_every_step = span.last - span.first == span.loads - 1;
  return steps_in_words(span.first, span.last) + (is_every_step ? "" : " (" + loads_text(span) + ")");
}

LoadSpan logged_steps(const History& history) {
  return {history.count(), history.steps().first, history.steps().last};
}

bool are_totals(RunOrigin origin, bool has_loss, std::int64_t loads, double tokens_of_load) {
  const bool are_few = loads == 1 || (loads > 1 && loads < kMinLoads && !has_loss);
  return are_few && tokens_of_load >= kTokensOfTotal && origin == RunOrigin::log;
}

std::string totals_text(std::int64_t totals, double tokens) {
  return (totals == 1 ? "one total" : fmt::format("{} totals", totals)) + " of " + grouped(std::llround(tokens)) +
         " tokens";
}

std::string limits_text(std::int64_t totals) {
  return (totals == 1 ? std::string(" One total does not show")
                      : fmt::format(" {} totals do not show exactly", totals)) +
         " when this began, or whether it lasts.";
}

LoadEvidence load_evidence(const History& history) {
  LoadEvidence evidence;
  const StepRange range = history.steps();
  if (range.empty()) return evidence;
  const RunInfo& info = history.info();
  const std::vector<std::int64_t> steps = history.steps_in(range);
  const std::vector<float> assignments = history.assignments(edges_of(steps));
  double slots = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (std::isnan(assignments[i])) continue;
    if (evidence.span.loads++ == 0) evidence.span.first = steps[i];
    evidence.span.last = steps[i];
    slots += assignments[i];
  }
  evidence.expected = slots / std::max(1, info.n_experts);
  const bool has_loss = history.series(Metric::ce_loss, kWholeRun, range, 1).front().finite > 0;
  const double tokens = slots / std::max(1, info.top_k) / std::max<std::int64_t>(1, evidence.span.loads);
  evidence.are_totals = are_totals(run_origin(info), has_loss, evidence.span.loads, tokens);
  return evidence;
}

}  // namespace moescope
