// The verdicts that a run had in the course of its training, so that a withdrawn verdict leaves a trace.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/findings/comparison/verdict_words.h"

namespace moescope {

struct PastVerdict {
  StepRange steps;  // last steps of the comparisons with this verdict
  VerdictWord word = VerdictWord::too_early;
};

// Judges the steps up to the first kMinSteps steps, then up to steps that are 1/16 farther apart each time. The first
// step of another verdict is found by bisection. The result depends on the losses only: a recording has the verdicts
// that its training had.
class VerdictTrace {
 public:
  // Judges new steps. Starts again before the end of runs that were rewound.
  void update(const PairedTrack& run, std::span<const PairedTrack> twins, Judging judging);
  const std::vector<PastVerdict>& past() const { return past_; }

 private:
  std::vector<PastVerdict> past_;  // without gaps between their steps
};

// Returns "worse until step 212" for the newest verdict Worse, Better or Good enough up to the last judged step
// that differs from the verdict of `c`; empty: there is none.
std::string withdrawn_text(std::span<const PastVerdict> past, const Conclusion& c);

}  // namespace moescope
