// How a recorded run was trained, enough to train it again: its settings, and its live changes from the markers of the
// history.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/config/config_field.h"
#include "core/config/run_config.h"
#include "core/history/history.h"

namespace moescope {

// The change that a marker of kind "change" describes. Throws std::runtime_error with its step if it does not name a
// setting and a value of it.
LiveChange recorded_change(const Marker& marker);

// Settings at the first step. Throws std::runtime_error if none are known or this version cannot read them.
RunConfig recorded_config(const RunInfo& info);
// By the step before which each took effect; without those of telemetry.*, which do not affect training.
using StepChanges = std::vector<std::pair<std::int64_t, LiveChange>>;
StepChanges recorded_changes(const History& history);

}  // namespace moescope
