// Finds the step up to which two runs have equal settings, so that one can serve as the noise twin of the other.
// Compares the first lines of imported logs, and the live changes of runs trained here.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/recording/history/history.h"

namespace moescope {

struct LogDifference {
  std::string key, a, b;  // "not given": the log does not state it
};
// Returns the settings that differ, without the names of the runs, in the order of their keys.
std::vector<LogDifference> difference(const std::map<std::string, std::string>& a,
                                      const std::map<std::string, std::string>& b);

// Returns the last step up to which the settings are equal; INT64_MAX: all steps; nullopt: they differ or are not
// known. Ignores name and seed. Keys that end in "_step", but not in "_per_step", give the step of an event (0: never):
// runs with different values are equal before the first of these steps.
std::optional<std::int64_t> same_settings_until(const std::map<std::string, std::string>& a,
                                                const std::map<std::string, std::string>& b);

// Returns the last step before the first live change that only one of the runs has; INT64_MAX if there is no such
// change. Ignores changes of [telemetry] and [parallel], which do not affect training.
std::int64_t same_changes_until(const History& a, const History& b);

// Returns the first step of `a` at which the settings say that the runs train on different text: in a log, a step at
// which only one changes its domains, dataset or mixture; in a run trained here, a live change of [data]. INT64_MAX: no
// difference is stated.
std::int64_t other_text_from(const History& a, const History& b);

// Returns a history with the loss, gradient norm and learning rate of the steps up to and including `last`.
std::shared_ptr<History> beginning_of(const History& history, std::int64_t last);

}  // namespace moescope
