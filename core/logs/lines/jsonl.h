// Writes a telemetry frame as one line of JSON, for `moescope-cli train --jsonl`.
//
// Keys of the step are "run", "step", "wall_s", "tokens", the columns of kFrameFigures (figures.h), "phase_ms", and
// those of for_each_rows() with the rows of core/frame/describe.h (assets/python/README.md). Absent values are null;
// NaN and infinities are the strings "NaN", "Infinity" and "-Infinity"; absent arrays are left out. Before its first
// step a run has a line of its own, without "step". import_jsonl.h reads all of it back.
#pragma once

#include <string>

#include "core/frame/frame.h"

namespace moescope {

std::string to_json_line(const TelemetryFrame& frame);  // without the newline
std::string to_json_line(const RunInfo& info);

}  // namespace moescope
