// Writes telemetry as JSON lines: a frame for `moescope-cli train --jsonl`, or a whole recording.
//
// Keys of the step are "run", "step", "wall_s", "tokens", the columns of kFrameFigures (figures.h), "phase_ms", and
// those of for_each_rows() with the rows of core/frame/describe.h (assets/python/README.md). Absent values are null;
// NaN and infinities are the strings "NaN", "Infinity" and "-Infinity"; absent arrays are left out. Before its first
// step a run has a line of its own, without "step". import_jsonl.h reads all of it back.
#pragma once

#include <functional>
#include <string>

#include "core/frame/frame.h"

namespace moescope {

std::string to_json_line(const TelemetryFrame& frame);  // without the newline
std::string to_json_line(const RunInfo& info);

// Writes a recording: for each run a line that describes it, then one line per step. Live changes, notes and events
// become "markers" [{"step", "kind", "text"}] of the next step, or of the last step if none follows. Changes also have
// "key" and "value": the setting and its new value. Returns true if the file was written. `progress` is called with
// 0..1 and returns false to cancel, which leaves no file. Throws std::runtime_error if the recording cannot be read or
// the file cannot be written.
bool export_jsonl(const std::string& recording, const std::string& path,
                  const std::function<bool(double)>& progress = {});

}  // namespace moescope
