// Which kinds of findings the checks of a run cover (checks_of() in findings.h).
#pragma once

#include <span>
#include <vector>

#include "core/findings/findings.h"

namespace moescope {

// A kind is in neither list if it, or a stronger kind, is among the findings, or if no run or log of this origin can
// have it.
struct CheckedKinds {
  std::vector<FindingKind> passed, not_checked;
};
CheckedKinds checked_kinds(const History& history, std::span<const Finding> findings);

}  // namespace moescope
