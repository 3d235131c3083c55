// Up to which step two runs have the same settings, so that one shows what chance does to the other: by the first lines
// of imported logs, and by the live changes of runs trained here.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/history/history.h"

namespace moescope {

struct LogDifference {
  std::string key, a, b;  // "-": not given
};
std::vector<LogDifference> difference(const std::map<std::string, std::string>& a,
                                      const std::map<std::string, std::string>& b);

// The last step up to which both have the same settings, INT64_MAX: all steps; nullopt: they differ, or are not known.
// Name and seed may differ, and keys that end in "_step", which give the step at which something happens (0: never):
// before the first of these steps the runs do not differ.
std::optional<std::int64_t> same_settings_until(const std::map<std::string, std::string>& a,
                                                const std::map<std::string, std::string>& b);

// The last step before a live change that only one of them got, INT64_MAX: there is none. Changes of [telemetry] and
// [parallel] do not affect training.
std::int64_t same_changes_until(const History& a, const History& b);

// Loss, gradient norm and learning rate up to and including `last`, for a run of which only the beginning counts.
std::shared_ptr<History> beginning_of(const History& history, std::int64_t last);

}  // namespace moescope
