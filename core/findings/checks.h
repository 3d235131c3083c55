// What a scan of a run has looked for: the checks that passed, and those that could not be made, with what they need.
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

// Those that `findings` of the run speak of are in neither list.
Checks checks_of(const History& history, std::span<const Finding> findings);

}  // namespace moescope
