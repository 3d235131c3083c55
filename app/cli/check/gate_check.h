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

inline constexpr const char* kGateHelp =
    "JSON with --against: {\"moescope_gate\": 1, \"verdict\", \"failed\", \"sentence\", \"run\", \"good\": [names],\n"
    "\"repeated\": [indices of good runs that do not count], \"paired_by\": steps or tokens, \"common_steps\", "
    "\"steps\": [first, last], \"figures\": number of those judged,\n"
    "\"exits\": [{\"figure\", \"name\", \"layer\", \"operand\", \"steps\", \"times\": how often outside, \"over\",\n"
    "\"worse\", \"value\", \"good\", \"half_width\", \"z\", "
    "\"limit\", \"expert\", \"load\"}] by first step, \"settings\": [{\"name\", \"value\", \"good\": [...], "
    "\"since\",\n"
    "\"differs_among_good\"}], \"not_in_all\": [...], \"notes\": [...]}; null: none.\n";

}  // namespace moescope
