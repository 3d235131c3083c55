// A telemetry frame out of JSON: the inverse of jsonl.h, and the forms that other programs write (import_jsonl.h).
#pragma once

#include <functional>

#include "core/frame/frame.h"
#include "core/io/json_values.h"

namespace moescope {

// How many bytes what is read from a line may take: a few words must not claim gigabytes.
class LineBudget {
 public:
  explicit LineBudget(std::size_t line_bytes);
  void take(std::size_t bytes);  // throws Unreadable: more than is left

 private:
  std::size_t left_;
};

// All of a line but the routers' nested lists, its names those of the table (line_names.h). Throws Unreadable: a value
// of the wrong kind or size. `info` gives the number of experts and domains.
// `names`: gives the names of an entry of "routers" in the table's words; empty: they are.
using RouterNames = std::function<JsonFields(const JsonFields& entry)>;
TelemetryFrame frame_from_json(const JsonFields& json, const RunInfo& info, LineBudget& budget,
                               const RouterNames& names = {});
// One layer's router, an element of "routers" or a line that has a "layer" of its own.
RouterFrame router_from_json(const JsonFields& json, const RunInfo& info, LineBudget& budget);
// A run's description, as to_json_line(RunInfo) writes it and as training scripts do.
// 0 and empty where it does not say; `run` is its number where it has one.
RunInfo run_info_from_json(const JsonFields& json);

}  // namespace moescope
