// What a check found, for tools that show the results of tests.
#pragma once

#include <span>
#include <string>

namespace moescope {

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

}  // namespace moescope
