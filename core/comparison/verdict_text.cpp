// The sentence of a conclusion.
#include <algorithm>
#include <cmath>

#include "core/comparison/verdict_words.h"
#include "core/io/words.h"

namespace moescope {
namespace {

std::string two_digits(float value) {
  return formatted("%.2g", static_cast<double>(std::fabs(value)));
}

// Prints the gap with as many digits after the point as two digits of `half` need: "+0.0028". No sign if it rounds to
// 0.
std::string signed_gap(float gap, float half) {
  const double size = std::fabs(std::isfinite(half) && half > 0 ? half : gap);
  const int digits = size > 0 ? std::clamp(1 - static_cast<int>(std::floor(std::log10(size))), 0, 9) : 4;
  const std::string number = formatted("%+.*f", digits, static_cast<double>(gap));
  return number.find_first_of("123456789") == number.npos ? number.substr(1) : number;
}

std::string steps_text(StepRange range) {
  return "steps " + std::to_string(range.first) + " to " + std::to_string(range.last);
}

std::string against_what_matters(const Conclusion& c) {
  const float size = std::fabs(c.gap);
  const std::string matters = "the " + two_digits(c.matters) + " that matter";
  if (size + c.half < c.matters) return ", less than " + matters;
  if (size - c.half > c.matters) return ", more than " + matters;
  return "; the gap may be less or more than " + matters;
}

// Returns "4.2 % of the tokens".
std::string of_tokens(float share) {
  return percent(share) + " of the tokens";
}

// Returns "; allowing for ..." if the smaller drift of the twins widened the interval noticeably.
std::string drift_text(const Conclusion& c) {
  if (c.replays && c.twins > 0)
    return "; this run replays run A's routing, so that it is not known whether the noise twins have drifted from run "
           "A as far as this run";
  if (c.drift_unknown)
    return "; routing flips were not counted, so that it is not known whether the noise twins have drifted from run A "
           "as far as this run";
  if (!c.widened) return {};
  return "; the interval allows for the smaller drift of the noise twins: their routing differs from run A's for " +
         of_tokens(c.drift_of_twins) + ", this run's for " + percent(c.drift);
}

std::string candidates_text(const Conclusion& c) {
  if (c.candidates < 2) return {};
  return "; the interval allows for the " + std::to_string(c.candidates) + " candidates that are compared with one run";
}

// Returns "the twins have not drifted apart yet: ...".
std::string near_text(const Conclusion& c) {
  const std::string of_run =
      c.replays ? "this run replays run A's routing" : "this run's differs for " + percent(c.drift);
  const std::string seen = "the noise twins have not drifted apart yet: their routing differs from run A's for " +
                           of_tokens(c.drift_of_twins) + ", " + of_run + ", and an interval needs " +
                           percent(kLeastDrift) + " for the twins; ";
  const std::string steps = std::to_string(c.lacking) + " more steps";
  if (c.lacking == 0)
    return seen + "their drift does not grow any more; a noise twin with another seed would give an interval";
  if (is_missing(c.growth))
    return seen + steps + ", as many as so far, because their drift has not grown yet and allows no estimate";
  return seen + "about " + steps + ", if it grows as it did over the judged steps";
}

std::string too_short_text(const Conclusion& c) {
  if (c.common_steps < kLeastSteps) return "too early to tell: verdict in " + counted(c.lacking, "step", "steps");
  return std::string("too few values of the ") + loss_words(c.loss) +
         " were measured for a verdict: each quarter of the last half of the steps needs one" +
         (c.lacking > 0 ? "; verdict in " + counted(c.lacking, "step", "steps") : "");
}

std::string who_text(const Conclusion& c) {
  return c.name + " against " + c.name_of_a + ": ";
}

std::string of_steps(const Conclusion& c) {
  const std::string who = who_text(c);
  const std::string loss = c.loss == Metric::val_loss ? "validation loss gap " : "loss gap ";
  const std::string alone = loss + signed_gap(c.gap, c.half), over = " nats/token over " + steps_text(c.steps);
  const std::string gap = alone + " +-" + two_digits(c.half) + over;
  const std::string allowing = drift_text(c) + candidates_text(c);
  const std::string seen = "gaps below " + two_digits(c.half) + " cannot be told from chance here" + allowing;
  switch (c.verdict) {
    case Verdict::too_short:
      return who + too_short_text(c);
    case Verdict::lost:
      return who + "one loss is NaN or infinite from step " + std::to_string(c.steps.first) + " on";
    case Verdict::identical:
      return who + "the same losses to the bit over " + steps_text(c.steps);
    case Verdict::no_twin:
      if (c.lacking > 0)
        return who + "too early to tell: " + alone + over + "; verdict in " + counted(c.lacking, "step", "steps") +
               ", when its noise twin has taken " + std::to_string(kLeastSteps);
      return who + "not judged: " + alone + over + "; add a noise twin to see whether that is more than chance";
    case Verdict::twins_near:
      return who + (c.lacking > 0 ? "too early to tell: " : "not judged: ") + alone + over + "; " + near_text(c);
    case Verdict::equal:
      return who + "good enough: " + gap + ", less than the " + two_digits(c.matters) + " that matter" + allowing;
    case Verdict::unclear:
      return who + "not told apart: " + alone + over + "; noise +-" + two_digits(c.half) + ", target " +
             two_digits(c.matters) + allowing + "; train longer or add a noise twin";
    case Verdict::worse:
      return who + "worse: " + gap + against_what_matters(c) + "; " + seen;
    case Verdict::better:
      return who + "better: " + gap + "; " + seen;
  }
  return {};
}

std::string of_texts(const Conclusion& c) {
  const std::string who = who_text(c);
  const std::string over = std::to_string(c.common_steps) + (c.common_steps == 1 ? " batch" : " batches") + " of text";
  if (c.verdict == Verdict::too_short) return who + "not judged: " + over + " give no interval";
  if (c.verdict == Verdict::identical) return who + "the same losses to the bit over " + over;
  const std::string gap =
      "loss gap " + signed_gap(c.gap, c.half) + " +-" + two_digits(c.half) + " nats/token over " + over;
  const std::string allowing = candidates_text(c);
  if (c.verdict == Verdict::equal)
    return who + "good enough: " + gap + ", less than the " + two_digits(c.matters) + " that matter" + allowing;
  if (c.verdict == Verdict::unclear)
    return who + "not told apart: " + gap + ", target " + two_digits(c.matters) + allowing +
           "; more text would narrow the interval";
  return who + (c.verdict == Verdict::worse ? "worse: " : "better: ") + gap + against_what_matters(c) + allowing;
}

}  // namespace

std::string verdict_sentence(const Conclusion& c) {
  if (c.name.empty()) return {};
  return c.is_on_texts ? of_texts(c) : of_steps(c);
}

}  // namespace moescope
