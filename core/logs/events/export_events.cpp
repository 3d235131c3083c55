// Writes the scalars of a run as a TensorBoard event file: TFRecord frames (event_records.h) around protobuf messages
// (tensorboard.proto) with wall_time, step, file_version and simple_value.
//
// A tag is the key of a metric, followed by the layer if the metric has a value for each layer: "ce_loss",
// "max_vio/layer_1".

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>

#include "core/files/folder_walk.h"
#include "core/files/unreadable.h"
#include "core/files/whole_file.h"
#include "core/frame/metrics.h"
#include "core/logs/events/event_records.h"
#include "core/logs/log_exports.h"
#include "core/logs/tag_map.h"
#include "tensorboard.pb.h"

namespace moescope {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBlock = 2048;  // steps per query
constexpr std::size_t kLongestFolderName = 200;
constexpr std::string_view kOwnBeginning = "events.out.tfevents.", kOwnEnding = ".moescope";  // of files written here

struct Series {
  Metric metric;
  int layer;
  std::string tag;
};

std::vector<Series> all_series(const History& history) {
  const RunInfo& info = history.info();
  std::vector<Series> series;
  for (int m = 0; m < kNumMetrics; ++m) {
    const auto metric = static_cast<Metric>(m);
    const std::string key = metric_info(metric).key;
    series.push_back({metric, kWholeRun, key});
    for (int layer = 0; layer < info.n_layers; ++layer)
      series.push_back({metric, layer, fmt::format("{}/layer_{}", key, layer)});
  }
  // Series without any value are left out.
  const StepRange all = history.steps();
  std::erase_if(series, [&](const Series& one_series) {
    const auto bins = history.series(one_series.metric, one_series.layer, all, 1);
    return bins.empty() || bins.front().finite + bins.front().non_finite == 0;
  });
  return series;
}

std::string safe_folder_name(const std::string& name) {
  std::string safe;
  for (const char c : name.substr(0, kLongestFolderName))
    safe += std::isalnum(static_cast<unsigned char>(c)) || std::strchr("._+-", c) ? c : '_';
  return safe.empty() || safe.front() == '.' ? "run" + safe : safe;
}

std::string in(const std::string& folder, const std::string& name) {
  return (fs::path(folder) / name).string();
}

bool is_export(std::string_view name) {
  return name.starts_with(kOwnBeginning) && name.ends_with(kOwnEnding);
}

}  // namespace

std::vector<std::string> event_folders(const std::string& parent, std::span<const std::string> run_names,
                                       bool keep_earlier) {
  std::set<std::string> taken_names;
  std::vector<std::string> folders;
  for (const std::string& run : run_names) {
    const std::string safe = safe_folder_name(run);
    std::string name = safe;
    const auto is_free = [&] {
      return !taken_names.contains(in_lower_case(name)) &&
             !(keep_earlier && !exported_events(in(parent, name)).empty());
    };
    for (int number = 2; !is_free(); ++number) name = fmt::format("{}-{}", safe, number);
    taken_names.insert(in_lower_case(name));
    folders.push_back(in(parent, name));
  }
  return folders;
}

std::vector<std::string> exported_events(const std::string& folder) {
  std::vector<std::string> files;
  for (const fs::path& file : files_in(folder, is_export)) files.push_back(file.string());
  return files;
}

double step_seconds(const History& history) {
  double seconds = 0;
  for (const float ms : history.values_in(Metric::step_ms, kWholeRun, history.steps()))
    if (ms > 0) seconds += 1e-3 * ms;
  return seconds;
}

std::string export_events(const History& history, const std::string& folder, double start,
                          const std::function<bool(double)>& progress) {
  const std::vector<std::int64_t> steps = history.steps_in(history.steps());
  if (steps.empty()) refuse(history.info().name, "has no step to export");
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) refuse(folder, "cannot make the folder: " + error.message());
  const std::string path =
      in(folder, fmt::format("{}{}{}", kOwnBeginning, static_cast<std::int64_t>(start), kOwnEnding));

  WholeFile file(path);
  const auto write = [&file](const tensorboard::Event& event) { file.write(framed_record(event.SerializeAsString())); };
  tensorboard::Event beginning;
  beginning.set_wall_time(0);
  beginning.set_file_version("brain.Event:2");
  write(beginning);
  const std::vector<Series> series = all_series(history);
  double wall_time = start;
  for (std::size_t first = 0; first < steps.size(); first += kBlock) {
    const auto block = std::span(steps).subspan(first, std::min(kBlock, steps.size() - first));
    std::vector<std::vector<float>> values;
    for (const Series& one_series : series)
      values.push_back(history.values_at(one_series.metric, one_series.layer, block));
    const std::vector<float> step_ms = history.values_at(Metric::step_ms, kWholeRun, block);
    for (std::size_t i = 0; i < block.size(); ++i) {
      if (std::isfinite(step_ms[i])) wall_time += 1e-3 * step_ms[i];
      tensorboard::Event event;
      event.set_wall_time(wall_time);
      event.set_step(block[i]);
      for (std::size_t s = 0; s < series.size(); ++s) {
        if (is_missing(values[s][i])) continue;
        tensorboard::Summary::Value* value = event.mutable_summary()->add_value();
        value->set_tag(series[s].tag);
        value->set_simple_value(values[s][i]);
      }
      if (event.has_summary()) write(event);
    }
    const double share = (first + block.size()) / static_cast<double>(steps.size());
    if (progress && !progress(share)) return {};
  }
  const std::vector<std::string> earlier = exported_events(folder);
  file.finish();
  for (const std::string& file : earlier)  // TensorBoard would also show their points
    if (file != path) fs::remove(file);
  return path;
}

}  // namespace moescope
