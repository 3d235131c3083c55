// What a history holds of how its run was trained, enough to train it again: its settings and the live changes, which
// are among its markers.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/config/run_config.h"
#include "core/telemetry/history/history.h"

namespace moescope {

// The mixture of domains is one for all runs in lock-step: data.mixture.
inline constexpr const char* kMixtureKey = "data.mixture";

// The change of a marker of kind "change". Throws std::runtime_error with its step: it names no setting or no value of
// it, or was cut short by an early version of the program.
LiveChange recorded_change(const Marker& marker);

// Settings at the first step. Throws std::runtime_error: none are known, or they do not fit this version.
RunConfig recorded_config(const RunInfo& info);
// By the step before which each took effect; but those of telemetry.*, which change only what is looked at.
using StepChanges = std::vector<std::pair<std::int64_t, LiveChange>>;
StepChanges recorded_changes(const History& history);

}  // namespace moescope
