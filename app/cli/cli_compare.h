// The end of a comparison on the command line: a table of the runs and what follows from it, in words.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/config/run_config.h"
#include "core/telemetry/findings/comparison.h"

namespace moescope {

// `configs` [run] as they were trained; the first is what the others are compared with.
std::string comparison_report(std::span<const HistoryPtr> histories, std::span<const RunConfig> configs,
                              double epsilon);

}  // namespace moescope
