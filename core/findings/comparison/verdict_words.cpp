#include "core/findings/comparison/verdict_words.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "core/files/text/words.h"

namespace moescope {
namespace {

using Reasons = std::vector<std::string>;

// Returns "2.5 times what matters", "12 times what matters".
std::string times_what_matters(double ratio) {
  return fmt::format("{:.{}f} times what matters", ratio, ratio < 9.95 ? 1 : 0);
}

// Share of the gap that matters: an interval that ends this near to an edge of the band is at the edge.
constexpr float kEdgeShare = 0.1f;

// Says that the interval ends near an edge of the band, and since when a verdict holds that has not held for long
// enough; else "".
std::string caution_text(const Conclusion& c) {
  return (is_at_edge(c) ? ", ends at the edge" : "") + late_text(c);
}

// Says on which side of the band the whole interval is, and how large the gap is.
Reasons sizes(const Conclusion& c) {
  const std::string size = times_what_matters(std::fabs(c.gap) / c.matters) + caution_text(c);
  return {(c.verdict == Verdict::worse ? "above the band, " : "below the band, ") + size, size};
}

// True if an interval of `half_width` around the gap would settle the verdict.
bool decides(const Conclusion& c, float half_width) {
  return verdict_of_interval(c.gap, half_width, c.matters) != Verdict::unclear;
}

Settlement with_another_twin(std::span<const Conclusion> candidates) {
  Settlement found;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Conclusion& c = candidates[i];
    if (c.verdict != Verdict::unclear || is_missing(c.half_with_another)) continue;
    found.how = Settlement::How::another_twin;
    if (decides(c, c.half_with_another)) found.settled.push_back(i);
  }
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Conclusion& c = candidates[i];
    const bool meant = found.settled.empty() || std::ranges::find(found.settled, i) != found.settled.end();
    if (c.verdict != Verdict::unclear || !meant || c.half_with_another <= found.half_width) continue;
    if (is_missing(c.half_with_another)) continue;
    found.half_width = c.half_with_another;
    found.widest = i;
  }
  return found;
}

// Most of the interval is chance by routing if the routing of the noise twins differs from run A's.
Settlement with_forced_balance(std::span<const Conclusion> candidates) {
  Settlement found;
  for (std::size_t i = 0; i < candidates.size(); ++i)
    if (candidates[i].verdict == Verdict::unclear && candidates[i].drift_of_twins >= kMinDrift) {
      found.how = Settlement::How::forced_balance;
      found.settled.push_back(i);
    }
  return found;
}

}  // namespace

std::string late_text(const Conclusion& c) {
  return c.held_from > 0 ? ", only since step " + grouped(c.held_from) : "";
}

bool is_at_edge(const Conclusion& c) {
  if (c.verdict != Verdict::worse && c.verdict != Verdict::better && c.verdict != Verdict::equal) return false;
  const float near_end = std::fabs(c.gap) + (c.verdict == Verdict::equal ? c.half_width : -c.half_width);
  return std::fabs(near_end - c.matters) < kEdgeShare * c.matters;
}

bool depends_on_seed(const Conclusion& c) {
  const bool is_open = c.verdict == Verdict::unclear || is_at_edge(c) || c.forced_balance;
  return is_open && !c.is_on_texts && !is_missing(c.half_width) && c.verdict != Verdict::identical;
}

std::string held_text(const Conclusion& c) {
  std::string word = "good enough";
  if (c.held_back != Verdict::equal) word = c.held_back == Verdict::worse ? "worse" : "better";
  return word + " since step " + grouped(c.held_from);
}

std::string other_text(const Conclusion& c) {
  if (c.other_text_from < 0) return {};
  return "from step " + grouped(c.other_text_from) +
         " on the runs read different text: their losses cannot be compared";
}

VerdictWord verdict_word(const Conclusion& c) {
  switch (c.verdict) {
    case Verdict::too_short:
    case Verdict::no_twin:
    case Verdict::twins_near:
      return c.missing_steps > 0 ? VerdictWord::too_early : VerdictWord::not_judged;
    case Verdict::lost:
      return c.lost_is_a ? VerdictWord::better : VerdictWord::worse;
    case Verdict::identical:
    case Verdict::equal:
      return VerdictWord::good_enough;
    case Verdict::unclear:
      return c.held_back == Verdict::unclear && std::fabs(c.gap) <= c.half_width ? VerdictWord::not_told_apart
                                                                                 : VerdictWord::not_settled;
    case Verdict::worse:
      return VerdictWord::worse;
    case Verdict::better:
      return VerdictWord::better;
  }
  return VerdictWord::too_early;
}

const char* to_text(VerdictWord word) {
  static constexpr const char* kTexts[] = {"Good enough",    "Worse",      "Better",           "Not settled",
                                           "Not told apart", "Not judged", "Too early to tell"};
  return kTexts[static_cast<int>(word)];
}

std::string verdict_text(VerdictWord word) {
  std::string text = to_text(word);
  text.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(text.front())));
  return text;
}

std::string verdict_name(const Conclusion& c) {
  const VerdictWord word = verdict_word(c);
  if (c.may_change) return "So far: " + verdict_text(word);
  const bool is_late = c.held_from > 0 && c.verdict != Verdict::unclear;
  return to_text(word) + std::string(is_late ? ", unconfirmed" : "");
}

std::vector<std::string> verdict_reasons(const Conclusion& c) {
  const std::string missing_steps = counted(c.missing_steps, "step", "steps");
  const std::string other = c.other_text_from < 0 ? "" : "different text from step " + grouped(c.other_text_from);
  switch (c.verdict) {
    case Verdict::too_short:
      if (!other.empty())
        return {fmt::format("{}; {} losses before it, {} are needed", other, c.common_steps, kMinSteps), other};
      if (c.missing_steps == 0) return {"too few values of the loss", "too few values"};
      return {"verdict in " + missing_steps};
    case Verdict::lost: {
      const std::string step = std::to_string(c.steps.first);
      if (c.lost_is_a) return {"A's loss is NaN or infinite from step " + step, "A: NaN from step " + step};
      return {"NaN or infinite from step " + step, "NaN from step " + step};
    }
    case Verdict::identical:
      return {"the same losses to the bit", "the same losses"};
    case Verdict::no_twin:
      if (c.missing_steps > 0) return {"the noise twin needs " + missing_steps + " more", "in " + missing_steps};
      if (!other.empty()) return {"no noise twin; " + other, other};
      return {"no noise twin to compare with", "no noise twin"};
    case Verdict::twins_near:
      if (c.missing_steps == 0) return {"the noise twin hardly differs from A", "noise not known"};
      return {"in about " + missing_steps + ", when the noise twin differs from A", "in about " + missing_steps};
    case Verdict::equal:
      return {"inside the band" + caution_text(c), "less than what matters" + caution_text(c)};
    case Verdict::unclear: {
      if (c.held_back != Verdict::unclear)
        return {held_text(c) + ", verdict in " + missing_steps + " if this holds",
                held_text(c) + ", " + missing_steps + " to go", held_text(c)};
      if (const float low_end = std::fabs(c.gap) - c.half_width; low_end > 0) {
        const std::string size = fmt::format("{:.1f} to {}", low_end / c.matters,
                                             times_what_matters((std::fabs(c.gap) + c.half_width) / c.matters));
        return {(c.gap > 0 ? "worse by " : "better by ") + size, size};
      }
      const std::string half_width = fmt::format("{:.2g}", c.half_width);
      return {"gaps below " + half_width + " may be chance", "chance ±" + half_width};
    }
    case Verdict::worse:
    case Verdict::better:
      return sizes(c);
  }
  return {};
}

Settlement what_settles(std::span<const Conclusion> candidates, bool room, bool can_force) {
  const auto none = [](const Conclusion& c) { return c.verdict == Verdict::no_twin && c.missing_steps == 0; };
  if (room && std::ranges::any_of(candidates, none)) return {.how = Settlement::How::first_twin, .settled = {}};
  Settlement later;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Conclusion& c = candidates[i];
    if (c.missing_steps == 0) continue;
    later.how = Settlement::How::more_steps;
    later.settled.push_back(i);
    later.missing_steps = std::max(later.missing_steps, c.missing_steps);
    later.if_it_holds |= c.held_from > 0;
    later.confirms |= c.held_from > 0 && c.verdict != Verdict::unclear;
    later.step = std::max(later.step, c.steps.last + 1 + c.missing_steps);
  }
  if (later.how != Settlement::How::nothing) return later;
  const Settlement twin = room ? with_another_twin(candidates) : Settlement{};
  if (twin.settled.empty() && can_force)
    if (Settlement forced = with_forced_balance(candidates); forced.how != Settlement::How::nothing) return forced;
  return twin;
}

}  // namespace moescope
