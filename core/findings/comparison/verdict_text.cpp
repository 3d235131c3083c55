// The sentence of a conclusion.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "core/files/text/words.h"
#include "core/findings/comparison/verdict_words.h"

namespace moescope {
namespace {

std::string two_digits(float value) {
  return fmt::format("{:.2g}", std::fabs(value));
}

// Prints the gap with as many digits after the point as two digits of `half_width` need: "+0.0028". No sign if it
// rounds to 0.
std::string signed_gap(float gap, float half_width) {
  const double size = std::fabs(std::isfinite(half_width) && half_width > 0 ? half_width : gap);
  const int digits = size > 0 ? std::clamp(1 - static_cast<int>(std::floor(std::log10(size))), 0, 9) : 4;
  const std::string number = fmt::format("{:+.{}f}", gap, digits);
  return number.find_first_of("123456789") == number.npos ? number.substr(1) : number;
}

std::string steps_text(StepRange range) {
  return fmt::format("steps {} to {}", range.first, range.last);
}

std::string against_what_matters(const Conclusion& c) {
  const std::string matters = "the " + two_digits(c.matters) + " that matter";
  if (c.verdict == Verdict::unclear) return ", more than chance, may be less or more than " + matters;
  return (c.verdict == Verdict::equal ? ", less than " : ", more than ") + matters + late_text(c) +
         (is_at_edge(c) ? ", at the edge of the band: another seed may give another verdict" : "");
}

// Returns "4.2 % of the tokens".
std::string token_share(float share) {
  return percent(share) + " of the tokens";
}

// Returns "; allowing for ..." if the smaller drift of the twins widened the interval noticeably.
std::string drift_text(const Conclusion& c) {
  if (c.forced_balance) return "; balance is forced, so that effects on the routing are not part of the gap";
  if (c.replays && c.twins > 0)
    return "; this run replays run A's routing, so that it is not known whether the noise twins have drifted from run "
           "A as far as this run";
  if (c.drift_unknown)
    return "; routing flips were not counted, so that it is not known whether the noise twins have drifted from run A "
           "as far as this run";
  if (!c.widened) return {};
  return "; the interval allows for the smaller drift of the noise twins: their routing differs from run A's for " +
         token_share(c.drift_of_twins) + ", this run's for " + percent(c.drift);
}

std::string candidates_text(const Conclusion& c) {
  if (c.candidates < 2) return {};
  return fmt::format("; the interval allows for the {} candidates that are compared with one run", c.candidates);
}

// Returns "the twins have not drifted apart yet: ...".
std::string near_text(const Conclusion& c) {
  const std::string run_drift =
      c.replays ? "this run replays run A's routing" : "this run's differs for " + percent(c.drift);
  const std::string reason = "the noise twins have not drifted apart yet: their routing differs from run A's for " +
                             token_share(c.drift_of_twins) + ", " + run_drift + ", and an interval needs " +
                             percent(kMinDrift) + " for the twins; ";
  const std::string steps = fmt::format("{} more steps", c.missing_steps);
  if (c.missing_steps == 0)
    return reason + "their drift does not grow any more; a noise twin with another seed would give an interval";
  if (is_missing(c.growth))
    return reason + steps + ", as many as so far, because their drift has not grown yet and allows no estimate";
  return reason + "about " + steps + ", if it grows as it did over the judged steps";
}

std::string too_short_text(const Conclusion& c) {
  if (c.other_text_from >= 0)
    return "not judged: loss gap " + signed_gap(c.gap, c.half_width) + " nats/token over " + steps_text(c.steps);
  if (c.common_steps < kMinSteps) return "too early to tell: verdict in " + counted(c.missing_steps, "step", "steps");
  return std::string("too few values of the ") + loss_words(c.loss) +
         " were measured for a verdict: each quarter of the last half of the steps needs one" +
         (c.missing_steps > 0 ? "; verdict in " + counted(c.missing_steps, "step", "steps") : "");
}

std::string who_text(const Conclusion& c) {
  return c.name + " against " + c.name_of_a + (c.may_change ? ": so far " : ": ");
}

std::string judged_sentence(const Conclusion& c) {
  const std::string run_name = who_text(c), colon = !c.may_change && c.held_from > 0 ? ", unconfirmed: " : ": ";
  const std::string loss = c.loss == Metric::val_loss ? "validation loss gap " : "loss gap ";
  const std::string judged =
                        c.is_on_texts ? counted(c.common_steps, "batch", "batches") + " of text" : steps_text(c.steps),
                    gap_alone = loss + signed_gap(c.gap, c.half_width), stretch = " nats/token over " + judged;
  const std::string gap = gap_alone + " +-" + two_digits(c.half_width) + stretch;
  const std::string allowing = drift_text(c) + candidates_text(c);
  const std::string chance_text =
                        "gaps below " + two_digits(c.half_width) + " cannot be told from chance here" + allowing,
                    beyond = against_what_matters(c) + (c.is_on_texts ? allowing : "; " + chance_text);
  switch (c.verdict) {
    case Verdict::too_short:
      if (c.is_on_texts)
        return run_name + "not judged: " + judged + (c.common_steps == 1 ? " gives" : " give") + " no interval";
      return run_name + too_short_text(c);
    case Verdict::lost:
      return fmt::format("{}one loss is NaN or infinite from step {} on", run_name, c.steps.first);
    case Verdict::identical:
      return run_name + "the same losses to the bit over " + judged;
    case Verdict::no_twin:
      if (c.missing_steps > 0)
        return fmt::format("{}too early to tell: {}{}; verdict in {}, when its noise twin has taken {}", run_name,
                           gap_alone, stretch, counted(c.missing_steps, "step", "steps"), kMinSteps);
      return run_name + "not judged: " + gap_alone + stretch +
             "; add a noise twin to see whether that is more than chance";
    case Verdict::twins_near:
      return run_name + (c.missing_steps > 0 ? "too early to tell: " : "not judged: ") + gap_alone + stretch + "; " +
             near_text(c);
    case Verdict::equal:
      return run_name + "good enough" + colon + gap + against_what_matters(c) + allowing;
    case Verdict::unclear:
      if (c.is_on_texts)
        return run_name + "not told apart: " + gap + "; gaps above " + two_digits(c.matters) + " matter" + allowing +
               "; more text makes the interval narrower";
      if (c.held_back != Verdict::unclear)
        return run_name + "not settled: " + gap + ", " + held_text(c) + "; verdict in " +
               counted(c.missing_steps, "step", "steps") + " if this holds" + allowing;
      if (std::fabs(c.gap) > c.half_width) return run_name + "not settled: " + gap + against_what_matters(c) + allowing;
      return run_name + "not told apart: " + gap_alone + stretch + "; " + chance_text + "; gaps above " +
             two_digits(c.matters) + " matter; train longer or add a noise twin";
    case Verdict::worse:
    case Verdict::better:
      return run_name + verdict_text(verdict_word(c)) + colon + gap + beyond;
  }
  return {};
}

}  // namespace

std::string verdict_sentence(const Conclusion& c) {
  if (c.name.empty()) return {};
  return judged_sentence(c) + (c.other_text_from < 0 ? "" : "; ") + other_text(c);
}

}  // namespace moescope
