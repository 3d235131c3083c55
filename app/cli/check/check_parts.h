// Parts of `check`: the command for findings, the results of its cases, and the comparison with good runs.
#pragma once

#include <sys/types.h>

#include <span>
#include <string>
#include <vector>

#include "core/files/text/report.h"
#include "core/findings/comparison/regression_gate.h"

namespace moescope {

// Runs the user's command for findings. The command is a line for the shell, given by the user. What is told to it
// comes on its standard input alone, never in the line, so that no text of a log can become a command. Its output goes
// to standard error.
class FindingCommand {
 public:
  explicit FindingCommand(std::string command) : command_(std::move(command)) {}
  ~FindingCommand() { collect(true); }  // waits for the commands that run
  FindingCommand(const FindingCommand&) = delete;
  FindingCommand& operator=(const FindingCommand&) = delete;

  // Starts the command with `input` and does not wait. Prints a message if it cannot be started.
  void start(const std::string& input);
  // Forgets commands that have ended; prints their exit status if it is not 0.
  void collect() { collect(false); }

 private:
  void collect(bool waits);
  std::string command_;
  std::vector<pid_t> running_;
};

// What a check found, for tools that show the results of tests.
enum class CheckOutcome { passed, failed, noted, not_checked };  // noted: found, but --fail-on does not name it

struct CheckCase {
  std::string run, name;
  CheckOutcome outcome = CheckOutcome::passed;
  std::string text = {};
};

// JUnit XML with a test suite for each run. Characters that XML does not allow are replaced.
std::string junit_xml(std::span<const CheckCase> cases);
// Workflow commands of GitHub, a line for each case that failed or was noted: "::error title=...::...".
std::string github_annotations(std::span<const CheckCase> cases);

// For `check RUN --against GOOD...`, whether a training is as good as earlier ones. Returns the verdicts that `words`
// names, separated by commas. Throws std::runtime_error if a word is not a verdict.
std::vector<GateVerdict> gate_verdicts(const std::string& words);

struct GateResult {
  GateReport report;
  bool failed = false;
};
Report report_of(const GateResult& result);
std::vector<CheckCase> gate_cases(const GateResult& result);

}  // namespace moescope
