#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <utility>

#include "core/io/json_values.h"
#include "core/io/sqlite.h"
#include "core/io/text_escape.h"
#include "core/telemetry/frame/change_marker.h"
#include "core/telemetry/frame/describe.h"
#include "core/telemetry/recording/recording.h"
#include "core/telemetry/recording/recording_file.h"
#include "core/telemetry/recording/schema.h"

namespace moescope {

namespace {

// Sizes beyond these mean a damaged file; within them allocations stay reasonable.
constexpr std::int64_t kMaxLayers = 4096, kMaxExperts = 65536, kMaxRanks = 4096, kMaxLoadColumns = 1 << 20;
constexpr std::size_t kMaxRuns = 256;
constexpr int kLongestOfRun = 2 << 20, kLongestNote = 64 << 20;  // bytes of a text

int narrow(std::int64_t value, std::int64_t lowest, std::int64_t highest, const std::string& what) {
  if (value < lowest || value > highest) {
    throw std::runtime_error(what + " is " + std::to_string(value) + ", expected " + std::to_string(lowest) + " to " +
                             std::to_string(highest));
  }
  return static_cast<int>(value);
}

template <class T>
std::vector<T> array_of(std::span<const std::uint8_t> blob, std::size_t size, const char* what) {
  if (blob.size() != size * sizeof(T)) {
    throw std::runtime_error(std::string(what) + " has " + std::to_string(blob.size()) + " bytes, expected " +
                             std::to_string(size * sizeof(T)));
  }
  std::vector<T> values(size);
  if (size) std::memcpy(values.data(), blob.data(), blob.size());
  return values;
}

std::vector<std::uint32_t> counts_of(std::span<const std::uint8_t> blob, std::size_t size, int width,
                                     const char* what) {
  if (blob.size() != size * width) {
    throw std::runtime_error(std::string(what) + " has " + std::to_string(blob.size()) + " bytes, expected " +
                             std::to_string(size * width));
  }
  std::vector<std::uint32_t> counts(size);
  const std::uint8_t* bytes = blob.data();
  for (std::uint32_t& n : counts) {
    for (int b = 0; b < width; ++b) n |= std::uint32_t{*bytes++} << 8 * b;
  }
  return counts;
}

float get_float(Statement& row) {
  double value;
  return row.get_real(value) ? static_cast<float>(value) : kNoValue;
}

// With the nan_mask after them, those that the format has.
template <class Frame, std::size_t N>
void get_figures(Statement& row, std::int64_t version, Frame& frame, const std::array<FrameFigure<Frame>, N>& table) {
  const auto has = [version](const auto& figure) { return figure.since <= version; };
  for (const auto& figure : table)
    if (has(figure)) frame.*figure.member = get_float(row);
  const std::int64_t nan_mask = row.get_integer();
  for (std::size_t i = 0; i < N; ++i)
    if (has(table[i]) && nan_mask >> i & 1) frame.*table[i].member = std::numeric_limits<float>::quiet_NaN();
}

// The enumerator of that name out of the first `count`.
template <class Enum>
Enum named(const std::string& name, const char* (*name_of)(Enum), int count, const char* what) {
  for (int i = 0; i < count; ++i) {
    if (name == name_of(static_cast<Enum>(i))) return static_cast<Enum>(i);
  }
  throw std::runtime_error(std::string(what) + " is '" + name + "'");
}

// A table copied by another program may have lost its key, and each search would scan all of it.
bool is_sought_by_id(Connection& connection, const char* table) {
  Statement key(connection, "SELECT pk = 1 AND upper(type) = 'INTEGER' FROM pragma_table_xinfo(?) WHERE cid = 0");
  return key.bind(std::string_view(table)).next() && key.get_integer() != 0;
}

// A table read along with `frame`: rows in the order of their id, each belonging to frame id >> 16. Where only some
// frames are wanted it seeks each.
class FrameRows {
 public:
  // `after`: of frames with a larger id.
  FrameRows(Connection& connection, const char* table, int run, bool seeks, std::int64_t after)
      : table_(table),
        seeks_(seeks && is_sought_by_id(connection, table)),
        rows_(connection, std::string("SELECT * FROM ") + table +
                              (seeks_ ? " WHERE id >= ? AND id < ? AND run = ? ORDER BY id"
                                      : " WHERE id >= ? AND run = ? ORDER BY id")),
        run_(run) {
    if (seeks_) return;
    rows_.bind((after + 1) << 16).bind(std::int64_t{run});
    advance();
  }
  // Calls `read` with each row of that frame, at its fourth column.
  template <class Read>
  void of_frame(std::int64_t frame_id, Read read) {
    if (seeks_) {
      rows_.reset();
      rows_.bind(frame_id << 16).bind((frame_id + 1) << 16).bind(std::int64_t{run_});
      advance();
    }
    while (id_ >= 0 && id_ >> 16 < frame_id) advance();
    while (id_ >= 0 && id_ >> 16 == frame_id) {
      rows_.get_integer();  // run
      rows_.get_integer();  // step
      try {
        read(rows_, id_);
      } catch (const std::runtime_error& error) {
        throw std::runtime_error(std::string("damaged: table ") + table_ + ", id " + std::to_string(id_) + ": " +
                                 error.what());
      }
      advance();
    }
  }

 private:
  void advance() { id_ = rows_.next() ? rows_.get_integer() : -1; }
  const char* table_;
  bool seeks_;
  Statement rows_;
  int run_;
  std::int64_t id_ = -1;
};

// A row of a table, as a visitor of describe().
class RowReader {
 public:
  RowReader(Statement& row, const RunInfo& info, std::int64_t version) : row_(row), info_(info), version_(version) {}

  void layer(int& layer, LayerColumn column) { layer = narrow(row_.get_integer(), column.lowest, kMaxLayers, "layer"); }
  template <class Frame, std::size_t N>
  void figures(Frame& frame, const std::array<FrameFigure<Frame>, N>& table) {
    get_figures(row_, version_, frame, table);
  }
  template <class T>
  void by_expert(std::vector<T>& values, Column column) {
    const auto blob = row_.get_blob();
    values = array_of<T>(blob, blob.empty() ? 0 : static_cast<std::size_t>(info_.n_experts), column.name);
  }
  void bins(std::vector<std::uint32_t>& counts, Column column) {
    if (column.since > version_) return;
    const auto blob = row_.get_blob();
    counts = array_of<std::uint32_t>(blob, blob.empty() ? 0 : kHalfOctaves, column.name);
  }
  void bins(HalfOctaves& bins, Column column) {
    const auto counts = array_of<std::uint32_t>(row_.get_blob(), kHalfOctaves, column.name);
    std::copy(counts.begin(), counts.end(), bins.begin());
  }
  template <class Enum>
  void name(Enum& value, Column column, Names<Enum> names) {
    value = named(row_.get_text(), names.name_of, names.count, column.name);
  }
  void text(std::string& text, Column) { text = row_.get_text(); }
  void gemm(Gemm&) { gemm_name_ = row_.get_text(); }
  void gemm_class(Gemm& gemm) {
    GemmClass gemm_class = GemmClass::experts;
    if (version_ >= 3) gemm_class = named(row_.get_text(), gemm_class_name, kNumQuantClasses, "gemm_class");
    const auto found = find_gemm(gemm_class, gemm_name_);
    if (!found) throw std::runtime_error("weight is '" + gemm_name_ + "'");
    gemm = *found;
  }
  void scales(std::array<std::uint32_t, 256>& e8m0_blocks) {
    const int first = narrow(row_.get_integer(), 0, 255, "first_byte");
    const auto blob = row_.get_blob();
    const int count = narrow(static_cast<std::int64_t>(blob.size() / 4), 0, 256 - first, "number of counts in blocks");
    const auto counts = array_of<std::uint32_t>(blob, static_cast<std::size_t>(count), "blocks");
    std::copy(counts.begin(), counts.end(), e8m0_blocks.begin() + first);
  }

 private:
  Statement& row_;
  const RunInfo& info_;
  std::int64_t version_;
  std::string gemm_name_;  // until its class is read
};

void check_layer(const RouterFrame& router, const RunInfo& info) {
  if (std::find(info.moe_layers.begin(), info.moe_layers.end(), router.layer) == info.moe_layers.end())
    throw std::runtime_error("layer " + std::to_string(router.layer) + " is not among the run's MoE layers");
}

void read_volume(Statement& row, VolumeFrame& volume) {
  row.get_integer();  // layer
  volume.ranks = narrow(row.get_integer(), 1, kMaxRanks, "ranks");
  volume.ranks_per_node = narrow(row.get_integer(), 1, kMaxRanks, "ranks_per_node");
  const int width = narrow(row.get_integer(), 1, 4, "count_bytes");
  const std::size_t ranks = volume.ranks;
  const std::size_t nodes = (ranks + volume.ranks_per_node - 1) / volume.ranks_per_node;
  volume.copies_RR = counts_of(row.get_blob(), ranks * ranks, width, "copies");
  volume.distinct_RR = counts_of(row.get_blob(), ranks * ranks, width, "distinct_ranks");
  volume.nodes_RN = counts_of(row.get_blob(), ranks * nodes, width, "distinct_nodes");
}

void read_wire(Statement& row, WireFrame& wire) {
  wire.ranks = narrow(row.get_integer(), 1, kMaxRanks, "ranks");
  wire.over_nodes = row.get_integer() != 0;
  const auto ranks = static_cast<std::size_t>(wire.ranks);
  wire.sent_RR = array_of<std::uint64_t>(row.get_blob(), ranks * ranks, "sent_bytes");
  wire.all_to_all_ms_R = array_of<float>(row.get_blob(), ranks, "all_to_all_ms");
}

// Into the frame's list that it belongs to.
void add_flip(Statement& row, std::int64_t version, const FlipFrame& flip, TelemetryFrame& frame) {
  const std::string reference = version >= 4 ? row.get_text() : kRun0Reference;
  if (reference != kRun0Reference && reference != kFp32Reference)
    throw std::runtime_error("reference is '" + reference + "', known are '" + kRun0Reference + "' and '" +
                             kFp32Reference + '\'');
  (reference == kFp32Reference ? frame.rounding_flips : frame.flips).push_back(flip);
}

void read_specialisation(Statement& row, const RunInfo& info, SpecialisationFrame& special) {
  special.layer = narrow(row.get_integer(), 0, kMaxLayers, "layer");
  const auto experts = static_cast<std::size_t>(info.n_experts);
  const auto domains = row.get_blob();
  const std::size_t row_bytes = experts * sizeof(std::uint32_t);
  const std::size_t rows = row_bytes == 0 ? 0 : domains.size() / row_bytes;
  special.domain_DE = array_of<std::uint32_t>(domains, rows * experts, "domain_experts");
  const auto together = row.get_blob();
  if (!together.empty()) special.together_EE = array_of<std::uint32_t>(together, experts * experts, "together");
  const auto bytes = row.get_blob();
  if (!bytes.empty()) special.byte_256E = array_of<std::uint32_t>(bytes, 256 * experts, "byte_experts");
  special.experts = info.n_experts;
  for (auto* values : {&special.weight_norm_E, &special.weight_sqnr_E}) {
    const auto blob = row.get_blob();
    if (!blob.empty()) *values = array_of<float>(blob, experts, "weight_norm or weight_sqnr");
  }
}

void read_text(Statement& row, TokenFrame& text) {
  text.kind = named(row.get_text(), text_kind_name, kNumTextKinds, "kind");
  const auto bytes = row.get_blob();
  text.text.assign(bytes.begin(), bytes.end());
  text.prompt = narrow(row.get_integer(), 0, static_cast<std::int64_t>(text.text.size()), "prompt");
  text.domain = row.get_text();
  text.loss_T = array_of<float>(row.get_blob(), text.text.size(), "loss");
}

void read_text_layer(Statement& row, const RunInfo& info, std::vector<TokenFrame>& texts) {
  const int position = narrow(row.get_integer(), 0, static_cast<std::int64_t>(texts.size()) - 1, "position");
  TokenFrame& text = texts[static_cast<std::size_t>(position)];
  TokenLayer& layer = text.layers.emplace_back();
  layer.layer = narrow(row.get_integer(), 0, kMaxLayers, "layer");
  layer.top_k = narrow(row.get_integer(), 1, std::max(1, info.n_experts), "top_k");
  const std::size_t slots = text.text.size() * static_cast<std::size_t>(layer.top_k);
  layer.experts_TK = array_of<std::uint16_t>(row.get_blob(), slots, "experts");
  for (const std::uint16_t expert : layer.experts_TK) narrow(expert, 0, info.n_experts - 1, "expert");
  layer.scores_TK = array_of<float>(row.get_blob(), slots, "scores");
  layer.margin_T = array_of<float>(row.get_blob(), text.text.size(), "margin");
}

nlohmann::json parse_array(const std::string& text) {
  try {
    auto array = parse_json(text);
    return array.is_array() && static_cast<std::int64_t>(array.size()) <= kMaxLayers ? array : nlohmann::json();
  } catch (const BadJson&) {
    return {};
  }
}

RunInfo read_run(Statement& row, std::int64_t version, const std::string& path) {
  RunInfo info;
  info.run = narrow(row.get_integer(), 0, 1 << 20, path + ": damaged: table run: run");
  const std::string where = path + ": damaged: run " + std::to_string(info.run) + ": ";
  info.name = printable(row.get_text((where + "name").c_str()));  // one line, wherever it is shown
  info.source = row.get_text((where + "source").c_str());
  info.config_toml = row.get_text((where + "config_toml").c_str(), kLongestOfRun);
  info.n_layers = narrow(row.get_integer(), 0, kMaxLayers, where + "n_layers");
  const auto layers = parse_array(row.get_text((where + "moe_layers").c_str(), kLongestOfRun));
  if (!layers.is_array() ||
      !std::all_of(layers.begin(), layers.end(), [](const auto& layer) { return layer.is_number_integer(); })) {
    throw std::runtime_error(where + "moe_layers is not a JSON array of layer indices");
  }
  for (const auto& layer : layers) {
    info.moe_layers.push_back(narrow(layer.template get<std::int64_t>(), 0, kMaxLayers, where + "MoE layer"));
  }
  info.n_experts = narrow(row.get_integer(), 0, kMaxExperts, where + "n_experts");
  narrow(static_cast<std::int64_t>(info.moe_layers.size()) * info.n_experts, 0, kMaxLoadColumns,
         where + "number of experts of all layers");
  info.top_k = narrow(row.get_integer(), 0, kMaxExperts, where + "top_k");
  info.tokens_per_step = row.get_integer();
  info.ranks = narrow(row.get_integer(), 0, kMaxRanks, where + "ranks");
  info.ranks_per_node = narrow(row.get_integer(), 0, kMaxRanks, where + "ranks_per_node");
  info.dim = narrow(row.get_integer(), 0, 1 << 24, where + "dim");
  info.window = narrow(row.get_integer(), 0, std::numeric_limits<int>::max(), where + "window");
  if (version < 4) return info;
  const auto domains = parse_array(row.get_text((where + "domains").c_str(), kLongestOfRun));
  if (!domains.is_array() ||
      !std::all_of(domains.begin(), domains.end(), [](const auto& name) { return name.is_string(); })) {
    throw std::runtime_error(where + "domains is not a JSON array of names");
  }
  info.domains = domains.template get<std::vector<std::string>>();
  if (version >= 5) info.kernels = row.get_text();
  return info;
}

// Of a run, in the order written, those with an id beyond `after`; all but the figures of the step itself only of every
// `every`th frame.
class FrameReader {
 public:
  FrameReader(Connection& connection, const RunInfo& info, std::int64_t every, std::int64_t after)
      : info_(info),
        every_(every),
        frames_(connection, "SELECT * FROM frame WHERE run = ? AND id > ? ORDER BY id"),
        routers_(connection, "router", info.run, every_ > 1, after),
        volumes_(connection, "volume", info.run, every_ > 1, after),
        quants_(connection, "quant", info.run, every_ > 1, after) {
    version_ = connection.integer("PRAGMA user_version");
    if (version_ >= 2) {
      flips_.emplace(connection, "flip", info.run, every_ > 1, after);
      gradients_.emplace(connection, "gradient", info.run, every_ > 1, after);
    }
    if (version_ >= 4) {
      specialisation_.emplace(connection, "specialisation", info.run, every_ > 1, after);
      texts_.emplace(connection, "text", info.run, every_ > 1, after);
      text_layers_.emplace(connection, "text_layer", info.run, every_ > 1, after);
      wires_.emplace(connection, "wire", info.run, every_ > 1, after);
    }
    frames_.bind(std::int64_t{info.run}).bind(after);
  }
  // nullptr: no more. Sets `id`.
  std::shared_ptr<const TelemetryFrame> next(std::int64_t& id) {
    if (!frames_.next()) return nullptr;
    auto frame = std::make_shared<TelemetryFrame>();
    id = frames_.get_integer();
    frame->run = static_cast<int>(frames_.get_integer());
    frame->step = frames_.get_integer();
    if (!frames_.get_real(frame->wall_s)) frame->wall_s = kNoValue;
    frame->tokens = frames_.get_integer();
    get_figures(frames_, version_, *frame, kFrameFigures);
    for (float& ms : frame->phase_ms) ms = get_float(frames_);
    if (n_++ % every_ != 0) return frame;
    routers_.of_frame(id, [&](Statement& row, std::int64_t) {
      check_layer(frame->routers.emplace_back(get<RouterFrame>(row)), info_);
    });
    volumes_.of_frame(id, [&](Statement& row, std::int64_t row_id) {
      const std::size_t position = row_id & 0xffff;
      if (position >= frame->routers.size()) throw std::runtime_error("there is no such router row");
      read_volume(row, frame->routers[position].volume);
    });
    quants_.of_frame(id, [&](Statement& row, std::int64_t) { frame->quants.push_back(get<QuantFrame>(row)); });
    if (flips_)
      flips_->of_frame(id, [&](Statement& row, std::int64_t) { add_flip(row, version_, get<FlipFrame>(row), *frame); });
    if (gradients_)
      gradients_->of_frame(id,
                           [&](Statement& row, std::int64_t) { frame->gradients.push_back(get<GradientFrame>(row)); });
    if (specialisation_) add_specialisation_and_texts(id, *frame);
    if (wires_) wires_->of_frame(id, [&](Statement& row, std::int64_t) { read_wire(row, frame->wire); });
    return frame;
  }

 private:
  template <class Row>
  Row get(Statement& statement) const {
    Row row;
    RowReader reader(statement, info_, version_);
    describe(row, reader);
    return row;
  }
  void add_specialisation_and_texts(std::int64_t id, TelemetryFrame& frame) {
    specialisation_->of_frame(id, [&](Statement& row, std::int64_t) {
      read_specialisation(row, info_, frame.specialisation.emplace_back());
    });
    texts_->of_frame(id, [&](Statement& row, std::int64_t) { read_text(row, frame.texts.emplace_back()); });
    text_layers_->of_frame(id, [&](Statement& row, std::int64_t) { read_text_layer(row, info_, frame.texts); });
  }
  const RunInfo& info_;
  std::int64_t every_, n_ = 0;
  Statement frames_;
  std::int64_t version_ = 0;
  FrameRows routers_, volumes_, quants_;
  std::optional<FrameRows> flips_, gradients_;                             // since format 2
  std::optional<FrameRows> specialisation_, texts_, text_layers_, wires_;  // since format 4
};

// With an id beyond `after`, which becomes that of the last one.
std::vector<Marker> read_markers(Connection& connection, std::int64_t version, int run, std::int64_t& after) {
  const bool has_keys = version >= 6;
  std::vector<Marker> markers;
  Statement rows(connection, std::string("SELECT id, step, kind, text") + (has_keys ? ", key, value" : "") +
                                 " FROM marker WHERE run = ? AND id > ? ORDER BY id");
  rows.bind(std::int64_t{run}).bind(after);
  while (rows.next()) {
    Marker& marker = markers.emplace_back();
    after = rows.get_integer();
    marker.run = run;
    marker.step = rows.get_integer();
    marker.kind = rows.get_text();
    marker.text = rows.get_text("a marker's text", kLongestNote);
    if (has_keys) {
      marker.key = rows.get_text("a marker's key");
      marker.value = rows.get_text("a marker's value", kLongestNote);
    } else {
      read_change_text(marker);
    }
  }
  return markers;
}

// One state of the file, however far a writer gets meanwhile.
class Snapshot {
 public:
  explicit Snapshot(Connection& connection) : connection_(connection) { connection.execute("BEGIN"); }
  ~Snapshot() { sqlite3_exec(connection_.handle(), "ROLLBACK", nullptr, nullptr, nullptr); }
  Snapshot(const Snapshot&) = delete;

 private:
  Connection& connection_;
};

// While it lives, the connection's statements ask whether to go on.
class Asking {
 public:
  Asking(Connection& connection, std::function<bool()> go_on) : connection_(connection) {
    connection_.on_progress(std::move(go_on));
  }
  ~Asking() { connection_.on_progress({}); }
  Asking(const Asking&) = delete;

 private:
  Connection& connection_;
};

using ReaderProgress = std::function<bool(double)>;

}  // namespace

struct RecordingReader::Database {
  struct Loaded {
    RunInfo info;  // as in the file
    std::shared_ptr<History> history;
    std::int64_t last_frame = 0, last_marker = 0;  // ids
  };
  Database(const std::string& path, const std::function<bool()>& go_on) : path(path), file(path, go_on) {
    connection().limit_length(kLongestOfRun);
    connection().on_progress(go_on);
    Statement rows(connection(), "SELECT * FROM run ORDER BY run");
    while (rows.next()) {
      if (runs.size() == kMaxRuns)
        throw std::runtime_error(path + ": damaged: holds more than " + std::to_string(kMaxRuns) + " runs");
      runs.push_back(read_run(rows, file.version(), path));
    }
    connection().on_progress({});
    connection().limit_length(kLongestValue);
    missing = file.missing();
  }
  Connection& connection() const { return file.connection(); }
  const RunInfo& run_of(int run) const {
    const auto info = std::ranges::find(runs, run, &RunInfo::run);
    if (info == runs.end()) throw std::runtime_error(path + ": has no run " + std::to_string(run));
    return *info;
  }
  std::int64_t rows_of(int run) const;
  // One state of the file, read once: nullptr where it was cancelled.
  std::shared_ptr<History> load_once(const RunInfo& info, std::int64_t every, const ReaderProgress& progress,
                                     std::size_t array_budget_bytes, int as_run);
  // Appends what lies behind the last rows that were read, arrays of every `every`th frame; false: cancelled.
  bool read_on(Loaded& loaded, std::int64_t every, const ReaderProgress& progress) const;
  std::string path;
  RecordingFile file;
  std::string missing;
  std::vector<RunInfo> runs;
  std::vector<Loaded> loaded;
  std::int64_t version_seen = -1;  // of the data, as SQLite numbers what others write
};

bool RecordingReader::Database::read_on(Loaded& of, std::int64_t every, const ReaderProgress& progress) const {
  const auto last_id =
      static_cast<double>(std::max<std::int64_t>(1, connection().integer("SELECT max(id) FROM frame")));
  const int run = of.info.run, as_run = of.history->info().run;
  // Asked within a statement, too: one may pass over any number of rows before it finds the next of this run.
  bool cancelled = false;
  const auto go_on = [&] {
    cancelled = cancelled || (progress && !progress(std::min(1.0, static_cast<double>(of.last_frame) / last_id)));
    return !cancelled;
  };
  const Asking asking(connection(), go_on);
  try {
    FrameReader reader(connection(), of.info, every, of.last_frame);
    for (int n = 0; auto frame = reader.next(of.last_frame); ++n) {
      of.history->append(std::move(frame));
      if (n % 64 == 0 && !go_on()) return false;
    }
    for (Marker& marker : read_markers(connection(), file.version(), run, of.last_marker)) {
      marker.run = as_run;
      of.history->append(std::move(marker));
    }
  } catch (const std::runtime_error& error) {
    if (cancelled) return false;
    const std::string message = error.what();
    throw std::runtime_error(message.starts_with(path) ? message : path + ": " + message);
  }
  return true;
}

// Layers of all frames of a run. Frames are counted without reading them: ids are dense but for a rewind.
std::int64_t RecordingReader::Database::rows_of(int run) const {
  const auto info = std::find_if(runs.begin(), runs.end(), [run](const RunInfo& r) { return r.run == run; });
  if (info == runs.end()) return 0;
  const std::int64_t frames = connection().integer("SELECT coalesce(max(id) - min(id) + 1, 0) FROM frame");
  const auto layers = static_cast<std::int64_t>(std::max<std::size_t>(1, info->moe_layers.size()));
  return std::max<std::int64_t>(0, frames) / static_cast<std::int64_t>(std::max<std::size_t>(1, runs.size())) * layers;
}

RecordingReader::RecordingReader(const std::string& path, const std::function<bool()>& go_on)
    : db_(std::make_unique<Database>(path, go_on)) {}
RecordingReader::~RecordingReader() = default;

const std::string& RecordingReader::missing() const {
  return db_->missing;
}

const std::vector<RunInfo>& RecordingReader::runs() const {
  return db_->runs;
}

std::shared_ptr<History> RecordingReader::load(int run, const std::function<bool(double)>& progress,
                                               std::size_t array_budget_bytes, int as_run) const {
  return load_every(run, 1, progress, array_budget_bytes, as_run);
}

bool RecordingReader::is_large(int run) const {
  return db_->rows_of(run) > 3 * kGlanceRows;
}

std::shared_ptr<History> RecordingReader::glance(int run, const std::function<bool(double)>& progress,
                                                 std::size_t array_budget_bytes, int as_run) const {
  const std::int64_t every = std::max<std::int64_t>(1, db_->rows_of(run) / kGlanceRows);
  return load_every(run, every, progress, array_budget_bytes, as_run);
}

std::shared_ptr<History> RecordingReader::Database::load_once(const RunInfo& info, std::int64_t every,
                                                              const ReaderProgress& progress,
                                                              std::size_t array_budget_bytes, int as_run) {
  RunInfo known = info;
  if (as_run >= 0) known.run = as_run;
  Loaded one{info, std::make_shared<History>(known, array_budget_bytes)};
  if (loaded.empty()) version_seen = connection().integer("PRAGMA data_version");
  const Snapshot snapshot(connection());
  if (!read_on(one, every, progress)) return nullptr;
  if (every == 1) loaded.push_back(one);
  return one.history;
}

std::shared_ptr<History> RecordingReader::load_every(int run, std::int64_t every,
                                                     const std::function<bool(double)>& progress,
                                                     std::size_t array_budget_bytes, int as_run) const {
  const RunInfo& info = db_->run_of(run);
  const auto load = [&] { return db_->load_once(info, every, progress, array_budget_bytes, as_run); };
  std::shared_ptr<History> history;
  try {
    history = load();
  } catch (const std::runtime_error&) {
    if (!db_->file.changed_unseen()) throw;
  }
  if (db_->file.changed_unseen()) {  // while it was read: what was read may be of two states
    std::erase_if(db_->loaded, [&](const Database::Loaded& one) { return one.history == history; });
    db_->file.reopen();
    history = load();
  }
  if (history && progress) progress(1.0);
  return history;
}

std::size_t RecordingReader::load_new() const {
  if (db_->file.changed_unseen()) {
    db_->file.reopen();
    db_->version_seen = -1;
  }
  const std::int64_t version = db_->connection().integer("PRAGMA data_version");
  if (version == db_->version_seen) return 0;
  const Snapshot snapshot(db_->connection());
  std::uint64_t news = 0;
  for (Database::Loaded& loaded : db_->loaded) {
    const std::uint64_t before = loaded.history->sequence();
    db_->read_on(loaded, 1, {});
    news += loaded.history->sequence() - before;
  }
  db_->version_seen = version;
  return news;
}

void RecordingReader::read(
    int run, const std::function<bool(const std::shared_ptr<const TelemetryFrame>&, double)>& take) const {
  const RunInfo& info = db_->run_of(run);
  if (db_->file.changed_unseen()) db_->file.reopen();
  Connection& connection = db_->connection();
  const Snapshot snapshot(connection);
  const auto last_id = static_cast<double>(std::max<std::int64_t>(1, connection.integer("SELECT max(id) FROM frame")));
  try {
    FrameReader reader(connection, info, 1, 0);
    std::int64_t id = 0;
    while (const auto frame = reader.next(id))
      if (!take(frame, static_cast<double>(id) / last_id)) return;
  } catch (const std::runtime_error& error) {
    const std::string message = error.what();
    throw std::runtime_error(message.starts_with("damaged") ? db_->path + ": " + message : message);
  }
}

std::vector<Marker> RecordingReader::markers(int run) const {
  std::int64_t after = 0;
  return read_markers(db_->connection(), db_->file.version(), run, after);
}

}  // namespace moescope
