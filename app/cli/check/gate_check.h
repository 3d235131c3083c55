// `check RUN --against GOOD...`: whether a training is as good as earlier ones.
#pragma once

#include <string>
#include <vector>

#include "app/cli/check/check_report.h"
#include "core/files/text/report.h"
#include "core/findings/comparison/regression_gate.h"

namespace moescope {

// Returns the verdicts that `words` names, separated by commas. Throws std::runtime_error if a word is not a verdict.
std::vector<GateVerdict> gate_verdicts(const std::string& words);

struct GateResult {
  GateReport report;
  bool failed = false;
};
Report report_of(const GateResult& result);
std::vector<CheckCase> gate_cases(const GateResult& result);

}  // namespace moescope
