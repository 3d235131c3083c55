// A telemetry frame out of JSON: the inverse of jsonl.h, and the forms that other programs write (import_jsonl.h).
#pragma once

#include "core/io/json_values.h"
#include "core/telemetry/frame/frame.h"

namespace moescope {

// All of a line but the routers' nested lists. Throws Unreadable: a value of the wrong kind or size. `info` gives the
// number of experts and domains.
TelemetryFrame frame_from_json(const JsonFields& json, const RunInfo& info);
// One layer's router, an element of "routers" or a line that has a "layer" of its own.
RouterFrame router_from_json(const JsonFields& json, const RunInfo& info);
// A run's description, as to_json_line(RunInfo) writes it and as training scripts do.
// 0 and empty where it does not say; `run` is its number where it has one.
RunInfo run_info_from_json(const JsonFields& json);

}  // namespace moescope
