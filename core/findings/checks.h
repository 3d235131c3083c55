// Checks of a scan: passed checks, and checks that could not be made, with the values that they lack.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/findings/findings.h"

namespace moescope {

struct Checks {
  std::vector<std::string> passed;       // sentences: "No expert is dead: ..."
  std::vector<std::string> not_checked;  // "oscillation: needs the bias of successive steps ..."
};

// Returns the checks of a run. A check passes if its watch had enough loads and tokens, and if `findings` has neither a
// finding of its kind nor one of a stronger kind; with such a finding it is in neither list.
Checks checks_of(const History& history, std::span<const Finding> findings);

}  // namespace moescope
