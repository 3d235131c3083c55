// The result of a training with candidates in words: the table of outcomes, and a sentence for each candidate.
#pragma once

#include <span>

#include "core/files/text/report.h"
#include "core/training/engine/outcomes.h"

namespace moescope {

// Adds how the runs from 1 on compare with run 0. `epsilon`: the first step with a larger difference of losses is
// named. Adds nothing if the runs have no step in common.
void add_comparison(Report& report, std::span<const JudgedRun> runs, double epsilon);
// Adds the outcomes of the candidates of all groups.
void add_outcomes(Report& report, std::span<const Outcome> outcomes);

}  // namespace moescope
