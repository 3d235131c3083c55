#include "core/files/export_events.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <vector>

#include "core/files/event_records.h"
#include "core/telemetry/frame/metrics.h"
#include "tensorboard.pb.h"

namespace moescope {

namespace {

constexpr std::int64_t kBlock = 2048;  // steps that are asked for together

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
      series.push_back({metric, layer, key + "/layer_" + std::to_string(layer)});
  }
  // Those without a value anywhere are left out.
  const StepRange all = history.steps();
  std::erase_if(series, [&](const Series& each) {
    const auto bins = history.series(each.metric, each.layer, all, 1);
    return bins.empty() || bins.front().finite + bins.front().non_finite == 0;
  });
  return series;
}

std::string safe_folder_name(const std::string& name) {
  std::string safe;
  for (const char c : name) safe += std::isalnum(static_cast<unsigned char>(c)) || std::strchr("._+-", c) ? c : '_';
  return safe.empty() || safe.front() == '.' ? "run" + safe : safe;
}

}  // namespace

EventWriter::EventWriter(const std::string& path) : file_(path) {
  tensorboard::Event event;
  event.set_wall_time(0);
  event.set_file_version("brain.Event:2");
  file_.write(framed_record(event.SerializeAsString()));
}

void EventWriter::scalars(double wall_time, std::int64_t step, std::span<const NamedScalar> values) {
  tensorboard::Event event;
  event.set_wall_time(wall_time);
  event.set_step(step);
  for (const auto& [tag, scalar] : values) {
    tensorboard::Summary::Value* value = event.mutable_summary()->add_value();
    value->set_tag(tag);
    value->set_simple_value(scalar);
  }
  file_.write(framed_record(event.SerializeAsString()));
}

void EventWriter::finish() {
  file_.finish();
}

std::string export_events(const History& history, const std::string& folder, double start,
                          const std::function<bool(double)>& progress) {
  const StepRange all = history.steps();
  if (all.empty()) throw std::runtime_error(history.info().name + ": has no step to export");
  const std::filesystem::path place = std::filesystem::path(folder) / safe_folder_name(history.info().name);
  std::error_code error;
  std::filesystem::create_directories(place, error);
  if (error) throw std::runtime_error(place.string() + ": cannot make the folder: " + error.message());
  // One run, one file: TensorBoard would show an earlier export's points as well.
  for (const auto& entry : std::filesystem::directory_iterator(place))
    if (entry.path().filename().string().ends_with(".moescope")) std::filesystem::remove(entry.path());
  const std::string path =
      (place / ("events.out.tfevents." + std::to_string(static_cast<std::int64_t>(start)) + ".moescope")).string();

  EventWriter writer(path);
  const std::vector<Series> series = all_series(history);
  double wall_time = start;
  for (std::int64_t first = all.first; first <= all.last; first += kBlock) {
    const StepRange block{first, std::min(all.last, first + kBlock - 1)};
    std::vector<std::vector<float>> values;
    for (const Series& each : series) values.push_back(history.values(each.metric, each.layer, block));
    const std::vector<float> step_ms = history.values(Metric::step_ms, kWholeRun, block);
    for (std::size_t i = 0; i < static_cast<std::size_t>(block.size()); ++i) {
      std::vector<NamedScalar> now;
      for (std::size_t s = 0; s < series.size(); ++s)
        if (!is_missing(values[s][i])) now.emplace_back(series[s].tag, values[s][i]);
      if (std::isfinite(step_ms[i])) wall_time += 1e-3 * static_cast<double>(step_ms[i]);
      if (!now.empty()) writer.scalars(wall_time, block.first + static_cast<std::int64_t>(i), now);
    }
    const double share = static_cast<double>(block.last - all.first + 1) / static_cast<double>(all.size());
    if (progress && !progress(share)) return {};
  }
  writer.finish();
  return path;
}

}  // namespace moescope
