// The outcome of a comparison of run A with its candidates in all groups: a table with the same columns in the window
// and on the command line.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/config/config_difference.h"
#include "core/config/run_config.h"
#include "core/files/text/report.h"
#include "core/findings/comparison/comparison.h"
#include "core/findings/comparison/operand_sqnr.h"

namespace moescope {

struct JudgedRun {
  RunConfig config;
  HistoryPtr history;  // nullptr: the run waits
  int group = 1;       // its group, from 1
};

struct Outcome {
  std::string name;
  std::string differs;  // from run A: "router.top_k = 4, seed = 2"; empty for run A
  int group = 1;
  bool waits = false;       // the members below are not known yet
  bool noise_twin = false;  // true for a noise twin of run A, by which other runs are judged
  RunFigures figures;       // over the last kOutcomeSteps steps that it and run A have
  Conclusion conclusion;    // against run A; for run A: too_short, without a gap
  FormatCosts costs;        // at the last of these steps
  OperandSqnr sqnr;         // at the last of these steps
};
inline constexpr std::int64_t kOutcomeSteps = 100;

// `runs`: run A first. Returns run A, then the others by loss gap, best first; runs without a gap follow in the given
// order.
std::vector<Outcome> outcomes(std::span<const JudgedRun> runs);

// Returns "worse", "better", "good enough", "not settled", "not told apart", "not judged", "too early to tell"; "run
// A", "noise twin", "waiting".
std::string verdict_words(const Outcome& outcome);

// Returns the settings of `config` that differ from `first`: "router.top_k = 4, seed = 2".
std::string differing_settings(const RunConfig& first, const RunConfig& config);

std::string underflow_place(const Outcome& outcome);  // operand with the largest underflow; empty: not measured

// A row for each outcome. Names and keys of the figures contain their units; shares are 0 to 1.
ValueTable outcomes_table(std::span<const Outcome> outcomes);

// Adds how the runs from 1 on compare with run 0. `epsilon`: the first step with a larger difference of losses is
// named. Adds nothing if the runs have no step in common.
void add_comparison(Report& report, std::span<const JudgedRun> runs, double epsilon);
// Adds the outcomes of the candidates of all groups.
void add_outcomes(Report& report, std::span<const Outcome> outcomes);

}  // namespace moescope
