// Opens an untrusted recording for reading and never writes to it. Checks that its tables are ordinary tables, works
// without write permission in its folder, and reports missing parts.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/files/sqlite.h"

namespace moescope {

class RecordingFile {
 public:
  // `go_on`: see Connection::on_progress; called during opening. Throws std::runtime_error with the path if there is no
  // such file, or if it is not a recording, has another format version, has views or virtual tables, or its log cannot
  // be read.
  explicit RecordingFile(const std::string& path, const std::function<bool()>& go_on = {});

  Connection& connection() const { return *connection_; }
  // True if the file was changed and `connection` cannot see it; call reopen() then. A file that no program is writing
  // is opened without locks, because lock files would stay beside it.
  bool changed_unseen() const;
  void reopen();
  // Returns a connection to the same file for another thread; nullptr if a program may be writing to the file, since
  // each connection would then see another state.
  std::unique_ptr<Connection> another_connection() const;
  // Returns a text for the user that names the file and a remedy, if the recording was not closed and the log beside it
  // is missing or damaged; empty if no part is known to be missing.
  std::string missing() const;
  // True if the recording was not closed and its log exists.
  bool has_log_of_unclosed() const;

 private:
  struct State {  // state of the file and of its log
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
  void require_columns();

  std::string path_;
  std::unique_ptr<Connection> connection_;
  bool locks_ = false;
  State opened_;
};

// Values of meta.state, which says whether the log beside the file may hold newer data than the file.
inline constexpr const char* kBeingWritten = "being written";  // also after the program was killed
inline constexpr const char* kClosed = "closed";
inline constexpr const char* kLogMerged = "killed, log taken in";  // a later writer moved the log into the file

std::string log_of(const std::string& recording);  // returns PATH-wal

}  // namespace moescope
