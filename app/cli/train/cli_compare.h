// Prints the result of a comparison: a table of the runs and the conclusions.
#pragma once

#include <span>
#include <string>

#include "core/comparison/comparison.h"
#include "core/comparison/operand_sqnr.h"
#include "core/config/run_config.h"

namespace moescope {

// `configs` [run]: the settings of the runs. Runs from 1 on are compared with run 0.
std::string comparison_report(std::span<const HistoryPtr> histories, std::span<const RunConfig> configs,
                              double epsilon);

}  // namespace moescope
