// Opens a recording of unknown origin for reading, and never writes to it: checks that its tables are ordinary tables,
// works without write permission in its folder, and reports what is missing.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/io/sqlite.h"

namespace moescope {

class RecordingFile {
 public:
  // `go_on` as in Connection::on_progress, during opening. Throws std::runtime_error with the path: no such file, not a
  // recording, another format version, views or virtual tables, a log that cannot be read.
  explicit RecordingFile(const std::string& path, const std::function<bool()>& go_on = {});

  Connection& connection() const { return *connection_; }
  // Whether the file was written to since, unseen by `connection`; call reopen() then. A file that nobody is writing is
  // opened without locks, since these would leave files beside it.
  bool changed_unseen() const;
  void reopen();
  // The same file for another thread; nullptr: somebody may be writing to it, and each connection would see another
  // state.
  std::unique_ptr<Connection> another_connection() const;
  // What is missing, as text for the user, with the file and what to do: a program that was killed leaves its log
  // beside the recording, and it was not copied along. Empty: nothing is known to be missing.
  std::string missing() const;
  // Whether the recording was not closed and its log is there.
  bool has_log_of_unclosed() const;

 private:
  struct State {  // of the file and its log
    dev_t device = 0;
    ino_t inode = 0;
    off_t bytes = -1, log_bytes = -1;  // -1: no such file
    std::int64_t changed_ns = 0;
    bool operator==(const State&) const = default;
  };
  State state() const;
  void open_with_locks();
  void open_without_locks();
  void check();

  std::string path_;
  std::unique_ptr<Connection> connection_;
  bool locks_ = false;
  State opened_;
};

// meta.state: whether the log beside the file may hold what the file does not.
inline constexpr const char* kBeingWritten = "being written";  // or the program was killed
inline constexpr const char* kClosed = "closed";
inline constexpr const char* kLogTakenIn = "killed, log taken in";  // by a later writer

std::string log_of(const std::string& recording);  // PATH-wal

// Throws std::runtime_error with the path: another application's file, or another format version.
void require_recording(Connection& connection);

}  // namespace moescope
