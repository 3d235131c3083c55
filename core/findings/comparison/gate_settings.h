// The settings in which a judged run differs from good runs.
#pragma once

#include <span>
#include <vector>

#include "core/findings/comparison/regression_gate.h"

namespace moescope {

// Compares the settings at the end of the runs: of configs without [telemetry] and [parallel], of logs what they state.
std::vector<GateSetting> differing_settings(const History& run, std::span<const HistoryPtr> good);

}  // namespace moescope
