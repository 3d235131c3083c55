// What came of a comparison: run A and its candidates, whichever groups they trained in.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/comparison/comparison.h"
#include "core/comparison/operand_sqnr.h"
#include "core/config/config_difference.h"
#include "core/config/run_config.h"

namespace moescope {

struct JudgedRun {
  RunConfig config;
  HistoryPtr history;  // nullptr: it waits
  int group = 1;       // it trains in, from 1
};

struct Outcome {
  std::string name;
  std::string differs;  // from run A: "router.top_k = 4, seed = 2"; empty: run A
  int group = 1;
  bool waits = false;       // nothing below is known
  bool noise_twin = false;  // of run A: others are judged by it
  RunFigures figures;       // over the last kOutcomeSteps that it and run A took
  Conclusion conclusion;    // against run A; of run A: too_short, without a gap
  FormatCosts costs;        // at the last of these steps
  OperandSqnr sqnr;         // likewise
};
inline constexpr std::int64_t kOutcomeSteps = 100;

// `runs`: run A first. The result: run A, then the others by loss gap, the best first; those without a gap last, in the
// order given.
std::vector<Outcome> outcomes(std::span<const JudgedRun> runs, double matters = kMatters);

// In one or two words: "worse", "better", "equal", "unclear", "lost", "identical", "no twin" (nothing tells how far
// chance goes), "twin too near" (nor do the twins yet), "too short"; "run A", "noise twin", "waiting".
std::string verdict_words(const Outcome& outcome);

// "router.top_k = 4, seed = 2": what of `config` differs from `first`.
std::string differing_settings(const RunConfig& first, const RunConfig& config);

}  // namespace moescope
