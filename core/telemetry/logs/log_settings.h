// Settings of imported runs, as their logs tell them in a first line: what two logs differ in, and how far they are
// runs of the same settings, which makes a noise band of them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/telemetry/history/history.h"

namespace moescope {

// By key, as text; empty: the log tells none.
std::map<std::string, std::string> log_settings(const History& history);

struct LogDifference {
  std::string key, a, b;  // "-": not said
};
std::vector<LogDifference> difference(const std::map<std::string, std::string>& a,
                                      const std::map<std::string, std::string>& b);

// The last step up to which both are runs of the same settings, INT64_MAX: all; nothing: they are not, or do not say.
// Name and seed may differ. So may keys that end in "_step", which say when something happens (0: never): until the
// first of these steps nothing has.
std::optional<std::int64_t> same_settings_until(const std::map<std::string, std::string>& a,
                                                const std::map<std::string, std::string>& b);

// Losses and other figures of whole steps up to and with `last`: a run of which only the beginning counts.
std::shared_ptr<History> beginning_of(const History& history, std::int64_t last);

}  // namespace moescope
