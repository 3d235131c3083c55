// Writes telemetry as JSON lines: a frame for `moescope-cli train --jsonl`, or a whole recording.
//
// Keys of the step are "run", "step", "wall_s", "tokens", the columns of kFrameFigures (figures.h), "phase_ms", and
// those of for_each_rows() with the rows of core/frame/describe.h (assets/python/README.md). Absent values are null;
// NaN and infinities are the strings "NaN", "Infinity" and "-Infinity"; absent arrays are left out. Before its first
// step a run has a line of its own, without "step".

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"
#include "core/files/whole_file.h"
#include "core/frame/describe.h"
#include "core/logs/log_exports.h"
#include "core/recording/recording.h"

namespace moescope {

namespace {

using Json = nlohmann::ordered_json;

// Returns the double nearest to the float's shortest decimal digits, so that 0.1f is written as 0.1.
Json number(float value) {
  if (is_missing(value)) return nullptr;
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  double exact = 0;
  read_number({text, end}, exact);
  return exact;
}

template <class Count>
Json rows_of(const std::vector<Count>& matrix, std::size_t rows) {
  Json out = Json::array();
  const std::size_t columns = rows ? matrix.size() / rows : 0;
  for (std::size_t r = 0; r < rows; ++r) {
    const auto row = std::span(matrix).subspan(r * columns, columns);
    out.push_back(std::vector(row.begin(), row.end()));
  }
  return out;
}

// Writes one row of a frame as a visitor of describe().
class RowToJson {
 public:
  explicit RowToJson(const Sizes& sizes = {}) : sizes_(sizes) {}
  Json json() {
    json_.update(last_);
    return std::move(json_);
  }

  void layer(int layer, LayerColumn column) {
    json_["layer"] = layer < 0 && column.null_without ? Json(nullptr) : Json(layer);
  }
  void size(int value, Size size, Column column) {
    sizes_.set(size, value);
    put(column, value);
  }
  void position(int position, Column column) { put(column, position); }
  void flag(bool flag, Column column) { put(column, flag); }
  void figures(const auto& row, const auto& table) {
    for (const auto& figure : table) json_[figure.column] = number(row.*figure.member);
  }
  void count_bytes(Column, const auto&...) {}
  // Floats of any shape are one list, counts a list of rows.
  void array(const std::vector<float>& values, Column column, Extent) {
    if (values.empty()) return;
    Json list = Json::array();
    for (const float value : values) list.push_back(number(value));
    put(column, std::move(list));
  }
  template <class Count>
  void array(const std::vector<Count>& counts, Column column, Extent extent) {
    if (extent.rows == Size::byte_values)
      put(column, counts_by_byte(counts, sizes_[extent.columns]));
    else if (extent.columns != Size::one)
      put(column, rows_of(counts, n_rows(counts.size(), extent)));
    else
      bins(counts, column);
  }
  void bins(const auto& counts, Column column) {
    if (!counts.empty()) put(column, counts);
  }
  void name(auto value, Column column, auto names) { put(column, names(value)); }
  void text(const std::string& text, Column column) { put(column, text); }
  void bytes(const std::string& text, Column column) {
    sizes_.set(Size::tokens, to_int(text.size()));
    put(column, escape_bytes(text));
  }
  void gemm(Gemm gemm) {
    json_["gemm_class"] = gemm_class_name(gemm_class_of(gemm));
    json_["weight"] = gemm_name(gemm);
  }
  void scales(const std::array<std::uint32_t, 256>& e8m0_blocks) {
    Json& blocks = json_["e8m0_blocks"] = Json::object();
    for (std::size_t byte = 0; byte < e8m0_blocks.size(); ++byte)
      if (e8m0_blocks[byte]) blocks[std::to_string(byte)] = e8m0_blocks[byte];
  }
  void experts(const SpecialisationFrame& special) { sizes_.set(Size::experts, to_int(special.n_experts())); }
  void nested(const VolumeFrame& volume, const char* key) {
    if (volume.ranks > 0) json_[key] = to_json(volume);
  }
  template <class Row>
  void nested(const std::vector<Row>& rows, const char* key) {
    json_[key] = to_json(rows, sizes_);
  }

  template <class Row>
  static Json to_json(const Row& row, const Sizes& sizes = {}) {
    RowToJson visitor(sizes);
    describe(row, visitor);
    return visitor.json();
  }
  template <class Row>
  static Json to_json(const std::vector<Row>& rows, const Sizes& sizes = {}) {
    Json list = Json::array();
    for (const Row& row : rows) list.push_back(to_json(row, sizes));
    return list;
  }

 private:
  void put(Column column, Json value) {
    if (!column.left_out) (column.last_key ? last_ : json_)[column.key] = std::move(value);
  }
  // Rows of bytes without a count are left out.
  static Json counts_by_byte(const auto& counts, std::size_t columns) {
    Json rows = Json::object();
    for (std::size_t begin = 0; columns > 0 && begin < counts.size(); begin += columns) {
      const auto row = std::span(counts).subspan(begin, columns);
      if (std::ranges::any_of(row, [](auto n) { return n > 0; }))
        rows[std::to_string(begin / columns)] = std::vector(row.begin(), row.end());
    }
    return rows;
  }
  std::size_t n_rows(std::size_t n_values, Extent extent) const {
    if (extent.rows != Size::domains) return sizes_[extent.rows];
    const std::size_t columns = sizes_[extent.columns];
    return columns == 0 ? 0 : n_values / columns;
  }

  Sizes sizes_;
  Json json_, last_ = Json::object();
};

// Moves the markers up to `step` into `line`.
void add_markers(std::string& line, std::vector<Marker>& markers, std::int64_t step) {
  const auto end = std::find_if(markers.begin(), markers.end(), [step](const Marker& m) { return m.step > step; });
  if (end == markers.begin()) return;
  Json list = Json::array();
  for (auto marker = markers.begin(); marker != end; ++marker) {
    auto& entry = list.emplace_back(Json{{"step", marker->step}, {"kind", marker->kind}, {"text", marker->text}});
    if (!marker->key.empty()) entry.update({{"key", marker->key}, {"value", marker->value}});
  }
  markers.erase(markers.begin(), end);
  line.pop_back();
  line += ",\"markers\":" + list.dump(-1, ' ', false, Json::error_handler_t::replace) + '}';
}

}  // namespace

std::string to_json_line(const RunInfo& info) {
  Json json = {{"run", info.run},
               {"name", info.name},
               {"source", info.source},
               {"layers", info.n_layers},
               {"moe_layers", info.moe_layers},
               {"experts", info.n_experts},
               {"top_k", info.top_k},
               {"tokens_per_step", info.tokens_per_step},
               {"ranks", info.ranks},
               {"ranks_per_node", info.ranks_per_node},
               {"dim", info.dim},
               {"window", info.window},
               {"domains", info.domains},
               {"kernels", info.kernels},
               {"config", info.config_toml}};
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

std::string to_json_line(const TelemetryFrame& frame) {
  Json json;
  json["run"] = frame.run;
  json["step"] = frame.step;
  json["wall_s"] = std::isfinite(frame.wall_s) ? Json(frame.wall_s) : Json(nullptr);
  json["tokens"] = frame.tokens;
  for (const auto& figure : kFrameFigures) json[figure.column] = number(frame.*figure.member);
  Json& phases = json["phase_ms"] = Json::object();
  for (int p = 0; p < kNumPhases; ++p) phases[phase_key(static_cast<Phase>(p))] = number(frame.phase_ms[p]);
  for_each_rows(frame, [&json]<class Rows>(const char* key, const Rows& rows) {
    if constexpr (std::is_same_v<Rows, WireFrame>) {
      if (rows.ranks > 0) json[key] = RowToJson::to_json(rows);
    } else if (!rows.empty()) {
      json[key] = RowToJson::to_json(rows);
    }
  });
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

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
