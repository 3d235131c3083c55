#include "core/findings/load_evidence.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/files/text/words.h"

namespace moescope {

double LoadSpan::interval() const {
  return loads > 1 ? std::max(1.0, (last - first) / static_cast<double>(loads - 1)) : 1;
}

std::int64_t LoadSpan::needed(std::int64_t steps) const {
  const double in_steps = std::ceil(steps / interval() - 1e-9);
  return std::clamp(static_cast<std::int64_t>(in_steps), std::min(kMinLoads, steps), steps);
}

std::string interval_text(const LoadSpan& span) {
  const double interval = span.interval();
  const auto whole = static_cast<std::int64_t>(std::round(interval));
  const std::string every = whole == 1 ? "every step" : "every " + grouped(whole) + " steps";
  return (std::fabs(interval - whole) < 1e-6 ? "one " : "about one ") + every;
}

std::string loads_text(const LoadSpan& span) {
  if (span.loads < 2) return counted(span.loads, "load", "loads");
  if (span.last - span.first == span.loads - 1) return counted(span.loads, "step", "steps");
  return counted(span.loads, "load", "loads") + ", " + interval_text(span);
}

LoadSpan logged_steps(const History& history) {
  return {history.count(), history.steps().first, history.steps().last};
}

bool is_one_total(RunOrigin origin, std::int64_t loads, double tokens) {
  return loads == 1 && tokens >= kTokensOfTotal && origin == RunOrigin::log;
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
  evidence.one_total = is_one_total(run_origin(info), evidence.span.loads, slots / std::max(1, info.top_k));
  return evidence;
}

}  // namespace moescope
