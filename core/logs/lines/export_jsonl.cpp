#include "core/logs/lines/export_jsonl.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/files/whole_file.h"
#include "core/logs/lines/jsonl.h"
#include "core/recording/recording.h"

namespace moescope {

namespace {

// Moves the markers up to `step` into `line`.
void add_markers(std::string& line, std::vector<Marker>& markers, std::int64_t step) {
  const auto end = std::find_if(markers.begin(), markers.end(), [step](const Marker& m) { return m.step > step; });
  if (end == markers.begin()) return;
  auto list = nlohmann::ordered_json::array();
  for (auto marker = markers.begin(); marker != end; ++marker) {
    auto& entry = list.emplace_back(
        nlohmann::ordered_json{{"step", marker->step}, {"kind", marker->kind}, {"text", marker->text}});
    if (!marker->key.empty()) entry.update({{"key", marker->key}, {"value", marker->value}});
  }
  markers.erase(markers.begin(), end);
  line.pop_back();
  line += ",\"markers\":" + list.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '}';
}

}  // namespace

bool export_jsonl(const std::string& recording, const std::string& path, const std::function<bool(double)>& progress) {
  const RecordingReader reader(recording);
  WholeFile file(path);
  const double runs = reader.runs().size();
  double done = 0;
  for (const RunInfo& info : reader.runs()) {
    file.write(to_json_line(info) + '\n');
    std::vector<Marker> markers = reader.markers(info.run);
    std::ranges::stable_sort(markers, {}, &Marker::step);
    bool cancelled = false;
    std::string line;  // written one frame later, so that the last line gets the remaining markers
    reader.read(info.run, [&](const std::shared_ptr<const TelemetryFrame>& frame, double share) {
      if (!line.empty()) file.write(line + '\n');
      line = to_json_line(*frame);
      add_markers(line, markers, frame->step);
      cancelled = progress && frame->step % 64 == 0 && !progress((done + share) / runs);
      return !cancelled;
    });
    if (cancelled) return false;
    if (!line.empty()) {
      add_markers(line, markers, INT64_MAX);
      file.write(line + '\n');
    }
    done += 1;
  }
  file.finish();
  return true;
}

}  // namespace moescope
