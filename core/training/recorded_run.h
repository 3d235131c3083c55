// Settings and live changes of a recorded run, from the config and the markers of its history, so that it can be
// trained again.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/config/config_field.h"
#include "core/config/run_config.h"
#include "core/recording/history/history.h"

namespace moescope {

// Returns the change in a marker of kind "change". Throws std::runtime_error with its step if it does not name a
// setting and a valid value.
LiveChange recorded_change(const Marker& marker);

// Returns the settings at the first step. Throws std::runtime_error if they are not known or this version cannot read
// them.
RunConfig recorded_config(const RunInfo& info);
// Returns the files and folders that the settings name and that a training reads, each with its key: "data.path:
// texts". A recording of unknown origin can name any file, so a command names them before it reads them.
std::set<std::string> named_inputs(const RunConfig& config);
// Live changes with the step before which each took effect; without changes of telemetry.*, which do not affect
// training.
using StepChanges = std::vector<std::pair<std::int64_t, LiveChange>>;
StepChanges recorded_changes(const History& history);

}  // namespace moescope
