
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <future>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/files/sqlite.h"
#include "core/files/text/json_text.h"
#include "core/files/text/text_escape.h"
#include "core/files/unreadable.h"
#include "core/numerics/operating_system.h"
#include "core/recording/frame_reader.h"
#include "core/recording/history/history.h"
#include "core/recording/limits.h"
#include "core/recording/recording.h"
#include "core/recording/recording_file.h"

namespace moescope {
namespace {

// Limits of a chunk of frames. A chunk is small, because a frame may have megabytes, but not too small, because each
// chunk starts a thread.
constexpr std::size_t kBytesAChunk = std::size_t{2} << 20, kMaxFramesPerChunk = 64;

// Reads and packs frames with several threads and returns them in order. No program may be writing to the recording.
class ReadAhead {
 public:
  struct Read {
    std::int64_t id;
    std::shared_ptr<History::Packed> frame;
  };
  // Starts a thread for each connection. `ids`: rising ids of the frames of the run; `frame_bytes`: approximate size of
  // a frame in the file.
  ReadAhead(std::vector<std::unique_ptr<Connection>> connections, const RunInfo& info, std::vector<std::int64_t> ids,
            std::size_t frame_bytes)
      : info_(info),
        ids_(std::move(ids)),
        frames_a_chunk_(
            std::clamp<std::size_t>(kBytesAChunk / std::max<std::size_t>(1, frame_bytes), 1, kMaxFramesPerChunk)) {
    for (auto& connection : connections) {
      connection->on_progress([this] { return !stopped_; });
      readers_.push_back({std::move(connection), nullptr});
    }
    for (Reader& reader : readers_) start(reader);
  }

  // Stops reading.
  ~ReadAhead() { stopped_ = true; }
  bool done() const { return chunks_.empty(); }
  // Returns the next frames; empty if they are not read within `timeout`. Throws the error of FrameReader at the frame
  // that caused it.
  std::vector<Read> wait(std::chrono::milliseconds timeout) {
    if (chunks_.front().frames.wait_for(timeout) != std::future_status::ready) return {};
    Chunk chunk = std::move(chunks_.front());
    chunks_.pop_front();
    std::vector<Read> frames = chunk.frames.get();
    start(*chunk.reader);
    return frames;
  }

 private:
  struct Reader {
    std::unique_ptr<Connection> connection;
    std::unique_ptr<FrameReader> frames;
  };
  struct Chunk {
    Reader* reader;  // reads one chunk at a time
    std::future<std::vector<Read>> frames;
  };
  // Starts the next chunk, if one is left.
  void start(Reader& reader) {
    if (begun_ == ids_.size()) return;
    const auto ids = std::span(ids_).subspan(begun_, std::min(frames_a_chunk_, ids_.size() - begun_));
    begun_ += ids.size();
    chunks_.push_back({&reader, std::async(std::launch::async, [this, &reader, ids] { return read(reader, ids); })});
  }

  std::vector<Read> read(Reader& reader, std::span<const std::int64_t> ids) const {
    if (!reader.frames) reader.frames = std::make_unique<FrameReader>(*reader.connection, info_, 1);
    reader.frames->seek(ids.front(), ids.back());
    std::vector<Read> frames;
    std::int64_t id = 0;
    while (auto frame = reader.frames->next(id)) frames.push_back({id, History::pack(std::move(frame))});
    return frames;
  }

  const RunInfo& info_;
  const std::vector<std::int64_t> ids_;
  const std::size_t frames_a_chunk_;
  std::size_t begun_ = 0;  // frames whose reading has started
  std::atomic<bool> stopped_{false};
  std::vector<Reader> readers_;
  std::deque<Chunk> chunks_;  // in order; last member, because the threads use the members above
};

constexpr std::size_t kMaxRuns = 256;
constexpr std::int64_t kFewRows = 3000;  // layers of frames that are read in about 10 ms
constexpr std::size_t kMaxThreads = 4;
constexpr std::chrono::milliseconds kProgressInterval{20};
constexpr int kLongestNote = 64 << 20;  // maximum bytes of a text

// Reads a JSON array; `is_right` says whether an entry is one of `what`.
nlohmann::json read_list(Statement& row, const std::string& problem_place, const std::string& column, const char* what,
                         bool (nlohmann::json::*is_right)() const noexcept) {
  nlohmann::json list;
  try {
    list = parse_json(row.get_text((problem_place + column).c_str(), kLongestOfRun));
  } catch (const BadJson&) {  // `list` stays null
  }
  const auto is_listed = [&](const nlohmann::json& entry) { return (entry.*is_right)(); };
  if (!list.is_array() || list.size() > kMaxListed || !std::ranges::all_of(list, is_listed))
    throw std::runtime_error(problem_place + column + " is not a JSON array of " + what);
  return list;
}

RunInfo read_run(Statement& row, const std::string& path) {
  RunInfo info;
  info.run = narrow(row.get_integer(), 0, 1 << 20, path + ": damaged: table run: run");
  const std::string problem_place = fmt::format("{}: damaged: run {}: ", path, info.run);
  info.name = printable(row.get_text((problem_place + "name").c_str()));  // printable() makes it one line
  info.source = row.get_text((problem_place + "source").c_str());
  info.config_toml = row.get_text((problem_place + "config_toml").c_str(), kLongestOfRun);
  info.n_layers = narrow(row.get_integer(), 0, kMaxLayers, problem_place + "n_layers");
  for (const auto& layer :
       read_list(row, problem_place, "moe_layers", "layer indices", &nlohmann::json::is_number_integer))
    info.moe_layers.push_back(narrow(layer.get<std::int64_t>(), 0, kMaxLayers, problem_place + "MoE layer"));
  info.n_experts = narrow(row.get_integer(), 0, kMaxExperts, problem_place + "n_experts");
  info.top_k = narrow(row.get_integer(), 0, kMaxExperts, problem_place + "top_k");
  info.tokens_per_step = row.get_integer();
  info.ranks = narrow(row.get_integer(), 0, kMaxRanks, problem_place + "ranks");
  info.ranks_per_node = narrow(row.get_integer(), 0, kMaxRanks, problem_place + "ranks_per_node");
  info.dim = narrow(row.get_integer(), 0, 1 << 24, problem_place + "dim");
  info.window = narrow(row.get_integer(), 0, std::numeric_limits<int>::max(), problem_place + "window");
  info.domains = read_list(row, problem_place, "domains", "names", &nlohmann::json::is_string);
  check_products(info, problem_place);
  info.kernels = row.get_text();
  return info;
}

// Returns the markers with an id beyond `after` and sets `after` to the id of the last one.
std::vector<Marker> read_markers(Connection& connection, int run, std::int64_t& after) {
  std::vector<Marker> markers;
  Statement rows(connection,
                 "SELECT id, step, kind, text, key, value FROM marker WHERE run = ? AND id > ? ORDER BY id");
  rows.bind_all(run, after);
  while (rows.next()) {
    Marker& marker = markers.emplace_back();
    after = rows.get_integer();
    marker.run = run;
    marker.step = rows.get_integer();
    marker.kind = rows.get_text();
    marker.text = rows.get_text("a marker's text", kLongestNote);
    marker.key = rows.get_text("a marker's key");
    marker.value = rows.get_text("a marker's value", kLongestNote);
  }
  return markers;
}

// Ends on destruction what was begun on the connection.
using ConnectionScope = std::unique_ptr<Connection, void (*)(Connection*)>;

// Begins a read transaction: all reads see one state of the file, even while a program writes.
ConnectionScope snapshot_of(Connection& connection) {
  connection.execute("BEGIN");
  return {&connection, [](Connection* begun) { sqlite3_exec(begun->handle(), "ROLLBACK", nullptr, nullptr, nullptr); }};
}

// Makes the connection's statements call `go_on` during the lifetime of the result.
ConnectionScope asking(Connection& connection, std::function<bool()> go_on) {
  connection.on_progress(std::move(go_on));
  return {&connection, [](Connection* begun) { begun->on_progress({}); }};
}

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
      if (runs.size() == kMaxRuns) refuse(path, fmt::format("damaged: holds more than {} runs", kMaxRuns));
      runs.push_back(read_run(rows, path));
    }
    connection().on_progress({});
    connection().limit_length(kLongestValue);
    missing = file.missing();
  }
  Connection& connection() const { return file.connection(); }
  const RunInfo& run_of(int run) const {
    const auto info = std::ranges::find(runs, run, &RunInfo::run);
    if (info == runs.end()) refuse(path, fmt::format("has no run {}", run));
    return *info;
  }
  // Returns the number of layers in all frames of a run. Frames are counted by their ids, which have gaps only after a
  // rewind.
  std::int64_t rows_of(const RunInfo& info) const {
    const std::int64_t frames = connection().integer("SELECT coalesce(max(id) - min(id) + 1, 0) FROM frame");
    const std::int64_t layers = std::max<std::size_t>(1, info.moe_layers.size());
    return std::max<std::int64_t>(0, frames) / static_cast<std::int64_t>(std::max<std::size_t>(1, runs.size())) *
           layers;
  }
  // Loads a run from one state of the file; returns nullptr if cancelled.
  std::shared_ptr<History> load_once(const RunInfo& info, std::int64_t interval, const ReaderProgress& progress,
                                     std::size_t array_budget_bytes, int as_run) {
    RunInfo known = info;
    if (as_run >= 0) known.run = as_run;
    Loaded one{info, std::make_shared<History>(known, array_budget_bytes)};
    if (loaded.empty()) version_seen = connection().integer("PRAGMA data_version");
    const ConnectionScope snapshot = snapshot_of(connection());
    if (!read_on(one, interval, progress)) return nullptr;
    if (interval == 1) loaded.push_back(one);
    return one.history;
  }

  // Appends the rows after those that `loaded` holds, with arrays of every `interval`th frame; returns false if
  // cancelled.
  bool read_on(Loaded& loaded, std::int64_t interval, const ReaderProgress& progress) const {
    const double last_id = std::max<std::int64_t>(1, connection().integer("SELECT max(id) FROM frame"));
    const int run = loaded.info.run, as_run = loaded.history->info().run;
    // Statements call go_on as well, because a statement may skip many rows before it finds the next one of this run.
    bool cancelled = false;
    const auto go_on = [&] {
      cancelled = cancelled || (progress && !progress(std::min(1.0, loaded.last_frame / last_id)));
      return !cancelled;
    };
    const ConnectionScope progress_scope = asking(connection(), go_on);
    try {
      if (!read_frames(loaded, interval, go_on)) return false;
      for (Marker& marker : read_markers(connection(), run, loaded.last_marker)) {
        marker.run = as_run;
        loaded.history->append(std::move(marker));
      }
    } catch (const std::runtime_error& error) {
      if (cancelled) return false;
      const std::string message = error.what();
      throw std::runtime_error(message.starts_with(path) ? message : path + ": " + message);
    }
    return true;
  }

  bool read_frames(Loaded& loaded, std::int64_t interval, const std::function<bool()>& go_on) const {
    FrameReader reader(connection(), loaded.info, interval);
    if (const auto ahead = interval == 1 ? read_ahead(loaded, reader) : nullptr)
      return read_frames_ahead(loaded, *ahead, go_on);
    reader.seek(loaded.last_frame + 1);
    for (int n = 0; auto frame = reader.next(loaded.last_frame); ++n) {
      loaded.history->append(std::move(frame));
      if (n % 64 == 0 && !go_on()) return false;
    }
    return true;
  }

  bool read_frames_ahead(Loaded& loaded, ReadAhead& ahead, const std::function<bool()>& go_on) const {
    while (!ahead.done()) {
      if (!go_on()) return false;
      for (auto& [id, frame] : ahead.wait(kProgressInterval)) {
        loaded.history->append(std::move(frame));
        loaded.last_frame = id;
      }
    }
    return true;
  }

  // Starts several threads that read the frames. Returns nullptr if one thread is enough, or if only one can read the
  // file.
  std::unique_ptr<ReadAhead> read_ahead(const Loaded& loaded, FrameReader& reader) const {
    const auto threads = std::min(usable_processors(), kMaxThreads);
    if (threads < 2 || loaded.last_frame > 0 || rows_of(loaded.info) < kFewRows || !reader.seeks()) return nullptr;
    std::vector<std::unique_ptr<Connection>> connections(threads);
    for (auto& connection : connections) {
      connection = file.another_connection();
      if (!connection) return nullptr;
    }
    std::vector<std::int64_t> ids;
    Statement rows(connection(), "SELECT id FROM frame WHERE run = ? AND id > 0 ORDER BY id");
    rows.bind(loaded.info.run);
    while (rows.next()) ids.push_back(rows.get_integer());
    const std::int64_t bytes = connection().integer("PRAGMA page_count") * connection().integer("PRAGMA page_size");
    const std::int64_t frames = std::max<std::int64_t>(1, connection().integer("SELECT count(*) FROM frame"));
    return std::make_unique<ReadAhead>(std::move(connections), loaded.info, std::move(ids),
                                       static_cast<std::size_t>(bytes / frames));
  }

  std::string path;
  RecordingFile file;
  std::string missing;
  std::vector<RunInfo> runs;
  std::vector<Loaded> loaded;
  std::int64_t version_seen = -1;  // SQLite's number of the data version, which changes when another connection writes
};

RecordingReader::RecordingReader(const std::string& path, const std::function<bool()>& go_on)
    : db_(std::make_unique<Database>(path, go_on)) {}
RecordingReader::~RecordingReader() = default;

const std::string& RecordingReader::missing() const {
  return db_->missing;
}

const std::vector<RunInfo>& RecordingReader::runs() const {
  return db_->runs;
}

bool RecordingReader::is_large(int run) const {
  return db_->rows_of(db_->run_of(run)) > 3 * kGlanceRows;
}

std::shared_ptr<History> RecordingReader::load(int run, const std::function<bool(double)>& progress,
                                               std::size_t array_budget_bytes, int as_run, bool glance) const {
  const RunInfo& info = db_->run_of(run);
  const std::int64_t interval = glance ? std::max<std::int64_t>(1, db_->rows_of(info) / kGlanceRows) : 1;
  const auto load = [&] { return db_->load_once(info, interval, progress, array_budget_bytes, as_run); };
  std::shared_ptr<History> history;
  try {
    history = load();
  } catch (const std::runtime_error&) {
    if (!db_->file.changed_unseen()) throw;
  }
  if (db_->file.changed_unseen()) {  // changed during reading: the frames may belong to two states
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
  const ConnectionScope snapshot = snapshot_of(db_->connection());
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
  const ConnectionScope snapshot = snapshot_of(connection);
  const double last_id = std::max<std::int64_t>(1, connection.integer("SELECT max(id) FROM frame"));
  try {
    FrameReader reader(connection, info, 1);
    reader.seek(1);
    std::int64_t id = 0;
    while (const auto frame = reader.next(id))
      if (!take(frame, id / last_id)) return;
  } catch (const std::runtime_error& error) {
    const std::string message = error.what();
    throw std::runtime_error(message.starts_with("damaged") ? db_->path + ": " + message : message);
  }
}

std::vector<Marker> RecordingReader::markers(int run) const {
  std::int64_t after = 0;
  return read_markers(db_->connection(), run, after);
}

}  // namespace moescope
