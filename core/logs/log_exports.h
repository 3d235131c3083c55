// Writers of recordings and runs in the forms of other programs; the file of a writer describes its form.
//
// `progress` is called with 0..1 and returns false to cancel, which leaves no new file. All functions throw
// std::runtime_error if a recording cannot be read or a file cannot be written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/frame/frame.h"
#include "core/recording/history/history.h"

namespace moescope {

// Telemetry as JSON lines (jsonl.cpp), which import_jsonl.h reads back.
std::string to_json_line(const TelemetryFrame& frame);  // without the newline
std::string to_json_line(const RunInfo& info);

// Writes a recording: for each run a line that describes it, then one line per step. Live changes, notes and events
// become "markers" [{"step", "kind", "text"}] of the next step, or of the last step if none follows. Changes also have
// "key" and "value": the setting and its new value. Returns true if the file was written.
bool export_jsonl(const std::string& recording, const std::string& path,
                  const std::function<bool(double)>& progress = {});

// Writes the measured phases of each step of a recording as a Chrome trace (Perfetto, chrome://tracing). Returns true
// if the file was written.
bool export_trace(const std::string& recording, const std::string& path,
                  const std::function<bool(double)>& progress = {});

// The experts of every token of a recorded text as inference engines return them (`routed_experts`).
struct RoutedText {
  std::string npy;  // int32 [tokens, layers, K], best expert first; 0 in dense layers
  std::size_t tokens = 0, layers = 0, top_k = 0;
  std::int64_t step = 0;
  TextKind kind = TextKind::probe;
};
// Uses the newest probe at or before `step`, else the newest sample or passage of the batch. Throws std::runtime_error
// if there is no routed text, or its layers have different numbers of experts per token.
RoutedText routed_text(const History& run, std::int64_t step);

// Writes every scalar of every step to FOLDER/events.out.tfevents.*, which TensorBoard shows as one run; returns the
// path of the file. Wall time is `start` (seconds since 1970) plus the time of the step. Then removes an earlier export
// in the folder. Leaves the folder as it was and returns an empty path if cancelled.
std::string export_events(const History& history, const std::string& folder, double start,
                          const std::function<bool(double)>& progress = {});
double step_seconds(const History& history);  // the time that all steps took
// Returns the path of a folder in `parent` for each run, named after the run. The names differ in more than upper and
// lower case. `keep_earlier`: skips folders that already hold an export.
std::vector<std::string> event_folders(const std::string& parent, std::span<const std::string> run_names,
                                       bool keep_earlier);
// Returns the files that export_events() has written to a folder.
std::vector<std::string> exported_events(const std::string& folder);

}  // namespace moescope
