#include "core/findings/comparison/verdict_trace.h"

#include <algorithm>

#include "core/files/text/words.h"

namespace moescope {

void VerdictTrace::update(const PairedTrack& run, std::span<const PairedTrack> twins, Judging judging) {
  constexpr std::int64_t kShare = 16;  // of the steps, by which looks are apart
  judging.goes_on = true;              // as it did at each of these steps
  const StepRange steps = run.track.steps();
  std::erase_if(past_, [&](const PastVerdict& verdict) { return verdict.steps.first > steps.last; });
  if (!past_.empty()) past_.back().steps.last = std::min(past_.back().steps.last, steps.last);
  const auto word_at = [&](std::int64_t last_step) {
    judging.last_step = last_step;
    judging.goes_on = true;  // also at the newest step, which a recording of more steps may go beyond
    return verdict_word(conclude(run, twins, judging));
  };
  std::int64_t look = steps.first + kMinSteps - 1;
  for (; look <= steps.last; look += std::max<std::int64_t>(1, (look - steps.first) / kShare)) {
    if (past_.empty()) past_.push_back({{look, look}, word_at(look)});
    if (look <= past_.back().steps.last) continue;
    const VerdictWord word = word_at(look);
    while (past_.back().word != word) {
      std::int64_t last_same_step = past_.back().steps.last, first_other_step = look;
      while (first_other_step - last_same_step > 1) {
        const std::int64_t middle = last_same_step + (first_other_step - last_same_step) / 2;
        (word_at(middle) == past_.back().word ? last_same_step : first_other_step) = middle;
      }
      past_.back().steps.last = last_same_step;
      past_.push_back({{first_other_step, first_other_step}, word_at(first_other_step)});
    }
    past_.back().steps.last = look;
  }
}

std::string withdrawn_text(std::span<const PastVerdict> past, const Conclusion& c) {
  if (c.held_from > 0) return {};  // the reason names the step since which the present side holds
  const VerdictWord present_word = verdict_word(c);
  for (auto verdict = past.rbegin(); verdict != past.rend(); ++verdict) {
    if (verdict->word > VerdictWord::better || verdict->word == present_word || verdict->steps.last >= c.steps.last)
      continue;
    return "verdict until step " + grouped(verdict->steps.last) + ": " + verdict_text(verdict->word);
  }
  return {};
}

}  // namespace moescope
