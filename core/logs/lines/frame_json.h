// Reads a telemetry frame from JSON: the inverse of jsonl.h, and the forms of other programs (import_jsonl.h).
#pragma once

#include <functional>

#include "core/files/text/json_values.h"
#include "core/frame/frame.h"

namespace moescope {

// Limits the memory for the values of a line, so that a short line cannot claim gigabytes.
class LineBudget {
 public:
  explicit LineBudget(std::size_t line_bytes);
  void take(std::size_t bytes);  // throws Unreadable if more than is left

 private:
  std::size_t free_bytes_;
};

// Reads the rows of a step into `frame`, and its time and tokens. Throws Unreadable if a value has the wrong kind or
// size. `info` gives the number of experts and domains. `names` translates the names of an entry of "routers" into
// those of the table.
using RouterNames = std::function<JsonFields(const JsonFields& entry)>;
void add_own_values(const JsonFields& json, const RunInfo& info, LineBudget& budget, const RouterNames& names,
                    TelemetryFrame& frame);
// Reads the router of one layer: an element of "routers", or a line with its own "layer".
RouterFrame router_from_json(const JsonFields& json, const RunInfo& info, LineBudget& budget);
// Returns a setting under any name that a program gives it (core/config/run_settings.h); 0 if there is none.
int setting(const JsonFields& json, std::string_view key, int limit);
// Reads the description of a run, as written by to_json_line(RunInfo) or by training scripts. Missing values are 0 or
// empty; `run` is the number in the line, if there is one.
RunInfo run_info_from_json(const JsonFields& json);

}  // namespace moescope
