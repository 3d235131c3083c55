#include "core/recording/recording_file.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <array>
#include <cctype>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include "core/files/input_file.h"
#include "core/files/unreadable.h"
#include "core/frame/describe.h"
#include "core/recording/schema.h"

namespace moescope {
namespace {

std::string hex(std::int64_t value) {
  return fmt::format("0x{:08x}", static_cast<std::uint64_t>(value));
}

// Returns a URI that opens the file as immutable: SQLite creates no files beside it and takes no locks.
std::string immutable_uri(const std::string& path) {
  std::string uri = "file:";
  for (const unsigned char c : path) {
    if (std::isalnum(c) || std::strchr("/._-~", c)) {
      uri += static_cast<char>(c);
    } else {
      uri += fmt::format("%{:02X}", c);
    }
  }
  return uri + "?immutable=1";
}

std::unique_ptr<Connection> open_immutable(const std::string& path) {
  return std::make_unique<Connection>(immutable_uri(path), SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, nullptr, path);
}

// Throws std::runtime_error unless `name` is an ordinary table. A view would run its query, which may never end, a
// virtual table would run code, and a computed column would run its expression.
void require_table(Connection& connection, const char* name) {
  const std::string problem_place = connection.path() + ": damaged: ";
  Statement entry(connection, "SELECT type, rootpage FROM sqlite_master WHERE name = ? COLLATE NOCASE");
  entry.bind(name);
  if (!entry.next()) throw std::runtime_error(problem_place + "no such table: " + name);
  const std::string type = entry.get_text("type", 64);
  const bool is_virtual = type == "table" && entry.get_integer() == 0;
  if (type != "table" || is_virtual)
    throw std::runtime_error(problem_place + name + " is of type " + (is_virtual ? "virtual table" : type) +
                             ", expected table");
  entry.reset();
  Statement computed(connection, "SELECT count(*) FROM pragma_table_xinfo(?) WHERE hidden <> 0");
  computed.bind(name).next();
  if (computed.get_integer() > 0)
    throw std::runtime_error(problem_place + "table " + name + " has a computed column, expected stored ones");
}

std::string columns_of(Connection& connection, const char* table) {
  Statement rows(connection, "SELECT name FROM pragma_table_info(?) ORDER BY cid");
  rows.bind(table);
  std::string names;
  while (rows.next()) names += rows.get_text("a column") + '\n';
  return names;
}

std::string state_of(Connection& connection) {
  Statement row(connection, "SELECT value FROM meta WHERE key = 'state'");
  return row.next() ? row.get_text("meta.state", 64) : std::string();
}

// True if the log is empty or complete. The first frame of a complete log repeats the salts of the log's header.
bool is_complete_log_now(const std::string& path) {
  InputFile file(path);
  std::array<unsigned char, 56> bytes{};
  if (file.read(reinterpret_cast<char*>(bytes.data()), bytes.size()) < bytes.size()) return file.size() == 0;
  const bool magic = bytes[0] == 0x37 && bytes[1] == 0x7f && bytes[2] == 0x06 && (bytes[3] & 0xfe) == 0x82;
  return magic && std::memcmp(bytes.data() + 16, bytes.data() + 32 + 8, 8) == 0;
}

// A program that is writing changes the header and the frame one after the other, so a mismatch is checked again.
bool is_complete_log(const std::string& path) {
  for (int look = 0; look < 3; ++look) {
    if (look > 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (is_complete_log_now(path)) return true;
  }
  return false;
}

// Throws std::runtime_error with the path if the file belongs to another application or has another format version.
void require_recording(Connection& connection) {
  const std::int64_t id = connection.integer("PRAGMA application_id");
  if (id != kApplicationId) {
    const bool empty = connection.integer("SELECT count(*) FROM sqlite_master") == 0;
    refuse(connection.path(), "not a MoEScope recording: " +
                                  (empty ? "an empty database"
                                         : "SQLite application id " + hex(id) + ", expected " + hex(kApplicationId)));
  }
  const std::int64_t version = connection.integer("PRAGMA user_version");
  if (version != kFormatVersion)
    refuse(connection.path(), fmt::format("recording format {}, but this MoEScope reads format {}: open it with the "
                                          "version of MoEScope that wrote it",
                                          version, kFormatVersion));
}

}  // namespace

std::string log_of(const std::string& recording) {
  return recording + "-wal";
}

RecordingFile::RecordingFile(const std::string& path, const std::function<bool()>& go_on) : path_(path) {
  require_regular_file(path);
  opened_ = state();
  // A log of either kind beside the file means that a program is writing, or was killed while writing.
  if (opened_.log_bytes >= 0 || std::filesystem::exists(path + "-journal"))
    open_with_locks();
  else
    open_without_locks();
  connection_->on_progress(go_on);
  check();
  connection_->on_progress({});
}

void RecordingFile::check() {
  require_recording(*connection_);
  for (const char* table : {"meta", "run", "frame", "marker"}) require_table(*connection_, table);
  for (const char* table : kFrameTables) require_table(*connection_, table);
  require_columns();
}

// Rows are read by the position of the column, so a file with other columns would be misread. Builds of MoEScope
// between two releases may write such files with the version of the next release.
void RecordingFile::require_columns() {
  Connection expected(":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  expected.execute(schema().c_str());
  const auto require = [&](const char* table) {
    if (columns_of(*connection_, table) != columns_of(expected, table))
      refuse(path_, std::string("table ") + table +
                        " has other columns than this MoEScope writes: open it with the build that wrote it");
  };
  for (const char* table : {"run", "frame", "marker"}) require(table);
  for (const char* table : kFrameTables) require(table);
}

void RecordingFile::open_without_locks() {
  locks_ = false;
  connection_ = open_immutable(path_);
  const int code = sqlite3_exec(connection_->handle(), "PRAGMA schema_version", nullptr, nullptr, nullptr);
  if ((code & 0xff) == SQLITE_NOTADB) refuse(path_, "not a MoEScope recording: no SQLite database");
}

void RecordingFile::open_with_locks() {
  locks_ = true;
  connection_ = std::make_unique<Connection>(path_, SQLITE_OPEN_READONLY);
  const auto code = [&] {
    return sqlite3_exec(connection_->handle(), "PRAGMA schema_version", nullptr, nullptr, nullptr) & 0xff;
  };
  switch (code()) {
    case SQLITE_OK:
      return;
    case SQLITE_NOTADB:
      refuse(path_, "not a MoEScope recording: no SQLite database");
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
      break;
    default:
      connection_->fail("");
  }
  // On a read-only medium the index of the log cannot be created beside the file, so it is kept in memory.
  connection_ = std::make_unique<Connection>(path_, SQLITE_OPEN_READONLY, "unix-none");
  connection_->execute("PRAGMA locking_mode = EXCLUSIVE");
  if (code() != SQLITE_OK) connection_->fail("its log " + log_of(path_) + " cannot be read");
}

std::unique_ptr<Connection> RecordingFile::another_connection() const {
  if (locks_) return nullptr;
  auto another = open_immutable(path_);
  return state() == opened_ ? std::move(another) : nullptr;  // a changed state may be another file of that name
}

void RecordingFile::reopen() {
  opened_ = state();
  open_with_locks();
  check();
}

RecordingFile::State RecordingFile::state() const {
  State current;
  struct stat file {};
  if (::stat(path_.c_str(), &file) == 0) {
    current.device = file.st_dev;
    current.inode = file.st_ino;
    current.bytes = file.st_size;
#if defined(__APPLE__)
    const timespec& changed = file.st_mtimespec;
#else
    const timespec& changed = file.st_mtim;
#endif
    current.changed_ns = std::int64_t{changed.tv_sec} * 1'000'000'000 + changed.tv_nsec;
  }
  if (::stat(log_of(path_).c_str(), &file) == 0) current.log_bytes = file.st_size;
  return current;
}

bool RecordingFile::changed_unseen() const {
  if (locks_) return false;
  const State current = state();
  // Another file of that name is another recording, so this one is unchanged.
  return current.device == opened_.device && current.inode == opened_.inode && !(current == opened_);
}

bool RecordingFile::has_log_of_unclosed() const {
  return opened_.log_bytes > 0 && state_of(*connection_) == kBeingWritten;
}

std::string RecordingFile::missing() const {
  const std::string state = state_of(*connection_);
  const std::string log = log_of(path_);
  Statement newest(*connection_, "SELECT step FROM frame ORDER BY id DESC LIMIT 1");
  const bool any = newest.next();
  const std::string ends = (any ? fmt::format("The recording ends with step {}", newest.get_integer())
                                : std::string("The recording has no step")) +
                           "; later steps, if any, are in the log. Copy both files from where it was recorded";
  if (state == kClosed || state == kLogMerged) return {};
  if (opened_.log_bytes >= 0)
    return is_complete_log(log) ? "" : path_ + ": its log, " + log + ", is damaged or was cut off. " + ends;
  return path_ + ": its program was killed or is still writing to it, and its log, " + log + ", is not here. " + ends;
}

}  // namespace moescope
