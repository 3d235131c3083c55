#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "core/files/input_file.h"
#include "core/files/sqlite.h"
#include "core/files/text/text_escape.h"
#include "core/files/unreadable.h"
#include "core/files/whole_file.h"
#include "core/frame/describe.h"
#include "core/frame/narrow_counts.h"
#include "core/recording/limits.h"
#include "core/recording/marks.h"
#include "core/recording/recording.h"
#include "core/recording/recording_file.h"
#include "core/recording/schema.h"

namespace moescope {
namespace {

// Returns an INSERT for all columns of a table.
std::string insert_sql(Connection& connection, const std::string& table) {
  const std::int64_t columns = connection.integer(("SELECT count(*) FROM pragma_table_info('" + table + "')").c_str());
  std::string sql = "INSERT INTO " + table + " VALUES (?";
  for (std::int64_t i = 1; i < columns; ++i) sql += ",?";
  return sql + ")";
}

// Counts of the arrays of a row in narrower types. The memory is used again for the next row.
class NarrowArrays {
 public:
  void clear() { n_used_ = 0; }
  // Returns the bytes of `counts`, which stay until clear().
  std::span<const std::uint8_t> add(std::span<const std::uint32_t> counts, std::size_t width) {
    if (n_used_ == arrays_.size()) arrays_.emplace_back();
    std::vector<std::uint8_t>& bytes = arrays_[n_used_++];
    bytes.resize(counts.size() * width);
    narrow_counts(counts, width, bytes.data());
    return bytes;
  }

 private:
  std::vector<std::vector<std::uint8_t>> arrays_;
  std::size_t n_used_ = 0;
};

// Visitor of describe() that binds the columns of a row. The row must live until the statement has run.
class RowBinder {
 public:
  // Counts are stored in `narrow`, which must stay unchanged until the statement has run.
  RowBinder(Statement& statement, NarrowArrays& narrow) : statement_(statement), narrow_(narrow) { narrow_.clear(); }

  void layer(int layer, LayerColumn) { statement_.bind(layer); }
  void size(int size, Size, Column) { statement_.bind(size); }
  void position(int position, Column) { statement_.bind(position); }
  void flag(bool flag, Column) { statement_.bind(flag); }
  // Binds the figures and the nan_mask after them.
  void figures(const auto& row, const auto& table) {
    std::int64_t nan_mask = 0;
    for (std::size_t i = 0; i < table.size(); ++i) {
      const float value = row.*table[i].member;
      if (std::isnan(value) && !is_missing(value)) nan_mask |= std::int64_t{1} << i;
      statement_.bind(value);
    }
    statement_.bind(nan_mask);
  }
  void count_bytes(Column, const auto&... arrays) {
    row_width_ = std::max({count_width(arrays)...});
    statement_.bind(row_width_);
  }
  void array(const auto& values, Column, Extent) { statement_.bind(values); }
  void array(const std::vector<std::uint32_t>& counts, Column, Extent extent) {
    const std::size_t width = width_of(counts, extent.count_width);
    if (width == sizeof(std::uint32_t)) {
      statement_.bind(counts);
      return;
    }
    const auto bytes = narrow_.add(counts, width);
    statement_.bind_blob(bytes.data(), bytes.size());
  }
  void bins(const auto& bins, Column) { statement_.bind_blob(bins.data(), bins.size() * sizeof(std::uint32_t)); }
  void name(auto value, Column, auto names) { statement_.bind(names(value)); }
  void text(const std::string& text, Column) { statement_.bind(text); }
  void bytes(const std::string& bytes, Column) { statement_.bind_blob(bytes.data(), bytes.size()); }
  void experts(const SpecialisationFrame&) {}
  void nested(const auto&, const char*) {}
  void gemm(Gemm gemm) { statement_.bind(gemm_class_name(gemm_class_of(gemm))).bind(gemm_name(gemm)); }
  void scales(const std::array<std::uint32_t, 256>& e8m0_blocks) {
    const ByteRange range = occupied_bytes(e8m0_blocks);
    statement_.bind(range.first);
    statement_.bind_blob(e8m0_blocks.data() + range.first, range.count * sizeof(std::uint32_t));
  }

 private:
  std::size_t width_of(const std::vector<std::uint32_t>& counts, CountWidth width) const {
    if (width == CountWidth::by_row) return row_width_;
    return width == CountWidth::narrow ? std::max<std::size_t>(2, count_width(counts)) : sizeof(std::uint32_t);
  }

  Statement& statement_;
  NarrowArrays& narrow_;
  std::size_t row_width_ = sizeof(std::uint32_t);  // bytes of a count with CountWidth::by_row
};

template <std::size_t... kIndex>
std::array<Statement, sizeof...(kIndex)> insertions_into(Connection& connection, std::index_sequence<kIndex...>) {
  return {Statement(connection, insert_sql(connection, kFrameTables[kIndex]))...};
}

std::string utc_now() {
  const std::time_t time = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  gmtime_r(&time, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

bool is_recording(const std::string& path) {
  char header[kApplicationIdEnds] = {};
  return has_application_id({header, InputFile(path).read(header, sizeof header)});
}

void remove_old_recording(const std::string& path) {
  if (!is_recording(path)) refuse(path, "exists and is not a MoEScope recording; it was left as it is");
  {
    Connection old(path, SQLITE_OPEN_READWRITE);
    sqlite3_busy_timeout(old.handle(), 0);
    // Leaving WAL mode needs exclusive access, which shows that no other program uses the file. For a damaged file this
    // fails with another error; such a file may be replaced.
    sqlite3_exec(old.handle(), "PRAGMA journal_mode = DELETE", nullptr, nullptr, nullptr);
    if ((old.last_code() & 0xff) == SQLITE_BUSY) refuse(path, "another program has this recording open");
  }
  for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path + suffix);
}

// Creates the file here, because SQLite would follow a link or open a file placed there after the check.
void make_new_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (fd < 0) refuse(path, std::string("cannot be written: ") + std::strerror(errno));
  ::close(fd);
}

void use_log(Connection& file) {
  file.execute("PRAGMA synchronous = NORMAL");
  file.execute("PRAGMA journal_mode = WAL");
}

// Writes pages directly to the file and keeps replaced pages in memory until the transaction ends. A recording is
// large; with a log every changed page would be written twice.
void use_no_log(Connection& file) {
  file.execute("PRAGMA page_size = 16384");
  file.execute("PRAGMA synchronous = OFF");
  file.execute("PRAGMA journal_mode = MEMORY");
}

void remove_recording_files(const std::string& path) {
  std::error_code gone;
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) std::filesystem::remove(path + suffix, gone);
}

std::unique_ptr<Connection> open_new_recording(const std::string& path, Durable durable) {
  auto file = std::make_unique<Connection>(path, SQLITE_OPEN_READWRITE);
  durable == Durable::always ? use_log(*file) : use_no_log(*file);
  file->execute("PRAGMA journal_size_limit = 4194304");
  file->execute("BEGIN");
  file->execute((fmt::format("PRAGMA application_id = {}", kApplicationId)).c_str());
  file->execute((fmt::format("PRAGMA user_version = {}", kFormatVersion)).c_str());
  file->execute(schema().c_str());
  Statement meta(*file, "INSERT INTO meta VALUES (?, ?)");
  const std::string version = std::to_string(kFormatVersion);
  const std::string created = utc_now();
  meta.bind_all("format_version", version).run();
  meta.bind_all("program", "MoEScope").run();
  meta.bind_all("created", created).run();
  meta.bind_all("state", kBeingWritten).run();
  file->execute("COMMIT");
  // Writes the new tables into the file immediately, so that a killed process leaves a recording even if its WAL is not
  // copied.
  if (durable == Durable::always) file->execute("PRAGMA wal_checkpoint(TRUNCATE)");
  return file;
}

std::unique_ptr<Connection> create_recording(const std::string& path, Durable durable) {
  for (const char* suffix : {"", "-wal", "-shm", "-journal"})
    if (const std::string problem = output_problem(path + suffix); !problem.empty())
      throw std::runtime_error(path + suffix + ": " + problem);
  if (std::filesystem::exists(path)) {
    if (std::filesystem::file_size(path) > 0)
      remove_old_recording(path);
    else
      std::filesystem::remove(path);
  }
  make_new_file(path);
  try {
    return open_new_recording(path, durable);
  } catch (...) {  // an incomplete file is not a recording and would block the next one
    remove_recording_files(path);
    throw;
  }
}

}  // namespace

constexpr std::chrono::milliseconds kLogMergeInterval{1000};

struct RecordingWriter::Database {
  Database(const std::string& path, Durable durable)
      : file(create_recording(path, durable)), connection(*file), has_log(durable == Durable::always) {}

  void insert(const TelemetryFrame& frame) {
    const auto newest = newest_step.find(frame.run);
    if (newest != newest_step.end() && frame.step <= newest->second) forget_from(frame.run, frame.step);
    newest_step[frame.run] = frame.step;

    const std::int64_t id = next_id++;
    insert_frame.bind_all(id, frame.run, frame.step, frame.wall_s, frame.tokens);
    RowBinder(insert_frame, narrow_arrays).figures(frame, kFrameFigures);
    for (const float ms : frame.phase_ms) insert_frame.bind(ms);
    insert_frame.run();
    insert_rows(frame, id << 16);
  }

  // Inserts a row. `before` and `after` are the values of the columns of that name of its Table, if it has them.
  template <class Row>
  void insert(const TelemetryFrame& frame, const Row& row, std::int64_t row_id, std::int64_t before = 0,
              const char* after = "") {
    Statement& statement = insertions[kTableIndex<Row>];
    statement.bind_all(row_id, frame.run, frame.step);
    if (kTable<Row>.before.name) statement.bind(before);
    RowBinder binder(statement, narrow_arrays);
    describe(row, binder);
    if (kTable<Row>.after.name) statement.bind(after);
    statement.run();
  }
  template <class Row>
  void insert_all(const TelemetryFrame& frame, const std::vector<Row>& rows, std::int64_t row_id) {
    for (const Row& row : rows) insert(frame, row, row_id++);
  }

  void insert_rows(const TelemetryFrame& frame, std::int64_t first_row_id) {
    std::int64_t router_id = first_row_id, flip_id = first_row_id, text_layer_id = first_row_id;
    for (const RouterFrame& router : frame.routers) {
      insert(frame, router, router_id);
      if (router.volume.ranks > 0) insert(frame, router.volume, router_id, router.layer);
      ++router_id;
    }
    insert_all(frame, frame.quants, first_row_id);
    for (const FlipFrame& flip : frame.flips) insert(frame, flip, flip_id++, 0, kRun0Reference);
    for (const FlipFrame& flip : frame.rounding_flips) insert(frame, flip, flip_id++, 0, kFp32Reference);
    insert_all(frame, frame.gradients, first_row_id);
    insert_all(frame, frame.router_roundings, first_row_id);
    insert_all(frame, frame.specialisation, first_row_id);
    insert_all(frame, frame.texts, first_row_id);
    for (std::size_t position = 0; position < frame.texts.size(); ++position)
      for (const TokenLayer& layer : frame.texts[position].layers)
        insert(frame, layer, text_layer_id++, static_cast<std::int64_t>(position));
    if (frame.wire.ranks > 0) insert(frame, frame.wire, first_row_id);
  }

  // Deletes the run's steps from `step` on, which are trained again after a rewind, and its markers after `step`. The
  // rows of these steps are at the end of each table.
  void forget_from(int run, std::int64_t step) {
    Statement find(connection, "SELECT coalesce(min(id), 0) FROM frame WHERE run = ? AND step >= ?");
    find.bind_all(run, step);
    find.next();
    const std::int64_t id = find.get_integer();
    find.run();
    const auto remove = [&](const char* table, std::int64_t first_id) {
      Statement rows(connection, std::string("DELETE FROM ") + table + " WHERE id >= ? AND run = ? AND step >= ?");
      rows.bind_all(first_id, run, step).run();
    };
    for (const char* table : kFrameTables) remove(table, id << 16);
    remove("frame", id);
    Statement(connection, "DELETE FROM marker WHERE run = ? AND step > ?").bind_all(run, step).run();
  }

  // Returns true if the step already has a note, and remembers `note`. A search of the table would take time in
  // proportion to the number of markers.
  bool has_note(const Marker& note) {
    if (!noted) {
      noted.emplace();
      Statement rows(connection, "SELECT run, step FROM marker WHERE kind = ?");
      rows.bind(kNoteKind);
      while (rows.next()) {
        const std::int64_t run = rows.get_integer();
        noted->emplace(run, rows.get_integer());
      }
    }
    return !noted->emplace(note.run, note.step).second;
  }

  // Moves the log into the file as far as no reader needs the old state, so that little is lost if the program is
  // killed and its log is not copied.
  void checkpoint_log() {
    const auto time = std::chrono::steady_clock::now();
    if (!has_log || time - log_merged_at < kLogMergeInterval) return;
    log_merged_at = time;
    sqlite3_wal_checkpoint_v2(connection.handle(), nullptr, SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
  }

  // Moves the whole log into the file and marks the file closed; SQLite itself does not do so while a reader is open.
  // This also syncs a file that had no log.
  void finish() {
    if (std::exchange(finished, true)) return;
    if (!has_log) use_log(connection);
    Statement(connection, "UPDATE meta SET value = ? WHERE key = 'state'").bind(kClosed).run();
    const int code =
        sqlite3_wal_checkpoint_v2(connection.handle(), nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
    if (!has_log && code != SQLITE_OK) connection.fail("");
  }

  bool has_moved() const {
    int moved = 0;
    return sqlite3_file_control(connection.handle(), "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK && moved != 0;
  }
  // Throws std::runtime_error if the file was removed or moved. SQLite would continue to write to a deleted file.
  void require_place() const {
    const std::string& path = connection.path();
    if (has_moved()) refuse(path, "was removed or moved while it was written");
    if (has_log && !std::filesystem::exists(path + "-wal"))
      throw std::runtime_error(path + "-wal: was removed while it was written; the recording is whole up to here");
  }

  std::unique_ptr<Connection> file;
  Connection& connection;
  bool has_log, finished = false, has_run = false;
  Statement begin{connection, "BEGIN"}, commit{connection, "COMMIT"};
  Statement insert_frame{connection, insert_sql(connection, "frame")};
  std::array<Statement, kNumFrameTables> insertions =
      insertions_into(connection, std::make_index_sequence<kNumFrameTables>());
  Statement say_being_written{connection, "UPDATE meta SET value = ?1 WHERE key = 'state' AND value <> ?1"};
  Statement insert_marker{connection,
                          "INSERT INTO marker (run, step, kind, text, key, value) VALUES (?, ?, ?, ?, ?, ?)"};
  NarrowArrays narrow_arrays;  // of the next insertion
  std::int64_t next_id = 1;
  std::map<int, std::int64_t> newest_step;  // by run
  // Run and step of each note; filled when the first note is written.
  std::optional<std::set<std::pair<std::int64_t, std::int64_t>>> noted;
  std::chrono::steady_clock::time_point log_merged_at{};
};

RecordingWriter::RecordingWriter(const std::string& path, Durable durable)
    : db_(std::make_unique<Database>(path, durable)) {}

void RecordingWriter::finish() {
  db_->finish();
}

// If the file was removed or moved, SQLite would delete the log of that name, which may belong to another recording by
// now.
RecordingWriter::~RecordingWriter() {
  sqlite3* file = db_->connection.handle();
  if (db_->has_moved()) {
    sqlite3_exec(file, "PRAGMA wal_checkpoint(PASSIVE)", nullptr, nullptr, nullptr);
    sqlite3_db_config(file, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    return;
  }
  try {
    db_->finish();
  } catch (const std::exception&) {  // full disk: what was written stays as a recording that was not closed
  }
  if (db_->has_run) return;
  const std::string path = db_->connection.path();  // a recording without a run cannot be opened
  db_.reset();
  remove_recording_files(path);
}

namespace {

// Throws std::runtime_error if RecordingReader would refuse the run.
void require_readable(const RunInfo& info, std::size_t domain_bytes) {
  const std::string run = "run '" + printable(info.name) + "': ";
  narrow(info.n_layers, 0, kMaxLayers, run + "number of layers");
  narrow(info.n_experts, 0, kMaxExperts, run + "number of experts");
  narrow(info.top_k, 0, kMaxExperts, run + "top_k");
  narrow(info.ranks, 0, kMaxRanks, run + "number of ranks");
  narrow(std::ssize(info.domains), 0, kMaxListed, run + "number of domains");
  narrow(domain_bytes, 0, kLongestOfRun, run + "bytes of the names of all domains");
  narrow(std::ssize(info.config_toml), 0, kLongestOfRun, run + "bytes of its settings");
  check_products(info, run);
}

}  // namespace

void RecordingWriter::add_run(const RunInfo& info) {
  const std::string layers = nlohmann::json(info.moe_layers).dump();
  const std::string domains =
      nlohmann::json(info.domains).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  require_readable(info, domains.size());
  Statement insert(db_->connection, "INSERT OR REPLACE INTO run VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
  insert
      .bind_all(info.run, info.name, info.source, info.config_toml, info.n_layers, layers, info.n_experts, info.top_k,
                info.tokens_per_step, info.ranks, info.ranks_per_node, info.dim, info.window, domains, info.kernels)
      .run();
  db_->has_run = true;
}

template <typename Write>
void RecordingWriter::in_transaction(Write write) {
  errno = 0;
  db_->begin.run();
  try {
    write();
    db_->commit.run();
  } catch (const std::exception& failure) {
    // "disk I/O error" does not give the cause, and a commit does not set sqlite3_system_errno().
    const int error_number = (db_->connection.last_code() & 0xff) == SQLITE_IOERR ? errno : 0;
    sqlite3_exec(db_->connection.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
    if (error_number == 0) throw;
    throw std::runtime_error(std::string(failure.what()) + ": " + std::strerror(error_number));
  }
}

void RecordingWriter::write(std::span<const std::shared_ptr<const TelemetryFrame>> frames) {
  if (frames.empty()) return;
  in_transaction([&] {
    for (const auto& frame : frames) db_->insert(*frame);
    // Another program that wrote a note may have changed the state (notes.cpp).
    db_->say_being_written.bind(kBeingWritten).run();
  });
  db_->checkpoint_log();
  db_->require_place();
}

void RecordingWriter::write(std::span<const Marker> markers) {
  if (markers.empty()) return;
  in_transaction([&] {
    for (const Marker& marker : markers) write(marker);
  });
}

void RecordingWriter::write(const Marker& marker) {
  if (marker.kind == kNoteKind && (db_->has_note(marker) || marker.text.empty()))
    return replace_marker(db_->connection, marker);
  db_->insert_marker.bind_all(marker.run, marker.step, marker.kind, marker.text, marker.key, marker.value).run();
}

}  // namespace moescope
