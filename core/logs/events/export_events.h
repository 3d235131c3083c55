// Writes the scalars of a run as a TensorBoard event file: TFRecord frames (event_records.h) around protobuf messages
// (tensorboard.proto) with wall_time, step, file_version and simple_value.
//
// A tag is the key of a metric, followed by the layer if the metric has a value for each layer: "ce_loss",
// "max_vio/layer_1".
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/files/whole_file.h"
#include "core/recording/history/history.h"

namespace moescope {

using NamedScalar = std::pair<std::string, float>;

// All members throw std::runtime_error "PATH: why" if the file cannot be written.
class EventWriter {
 public:
  explicit EventWriter(const std::string& path);
  void scalars(double wall_time, std::int64_t step, std::span<const NamedScalar> values);
  void finish() { file_.finish(); }

 private:
  WholeFile file_;
};

// Returns the path of a folder in `parent` for each run, named after the run. The names differ in more than upper and
// lower case. `keep_earlier`: skips folders that already hold an export.
std::vector<std::string> event_folders(const std::string& parent, std::span<const std::string> run_names,
                                       bool keep_earlier);
// Returns the files that export_events() has written to a folder.
std::vector<std::string> exported_events(const std::string& folder);

// Returns the time that all steps took.
double step_seconds(const History& history);
// Writes every scalar of every step to FOLDER/events.out.tfevents.*, which TensorBoard shows as one run; returns the
// path of the file. Wall time is `start` (seconds since 1970) plus the time of the step. Then removes an
// earlier export in the folder. `progress` is called with 0..1 and returns false to cancel, which leaves the folder as
// it was and returns an empty path.
std::string export_events(const History& history, const std::string& folder, double start,
                          const std::function<bool(double)>& progress = {});

}  // namespace moescope
