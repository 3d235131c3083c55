// A recording as a file that may come from anybody, opened for reading and never written to: its tables are tables, it
// is read with or without the right to write beside it, and what is missing of it is said.
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
  // `go_on` as of Connection::on_progress, while it is opened. Throws std::runtime_error with the path: no such file,
  // no recording, of a newer version, tables that are none, a log that cannot be read.
  explicit RecordingFile(const std::string& path, const std::function<bool()>& go_on = {});

  Connection& connection() const { return *connection_; }
  std::int64_t version() const { return version_; }
  // Whether somebody wrote to it since it was opened in a way that `connection` does not see; reopen() then sees it.
  // Where nobody was writing, it was opened without locks, which would leave files beside it.
  bool changed_unseen() const;
  void reopen();
  // What is missing of it, in words for a person, with the file and what to do: the log of a program that was killed
  // lies beside a recording, and was not copied along. Empty: nothing is known to be missing.
  std::string missing() const;
  // Whether it was not closed, and its log is there.
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
  std::int64_t version_ = 0;
  bool locks_ = false;
  State opened_;
};

// meta.state: whether the log beside the file may hold what the file does not.
inline constexpr const char* kBeingWritten = "being written";  // or its program was killed
inline constexpr const char* kClosed = "closed";
inline constexpr const char* kLogTakenIn = "killed, log taken in";  // by somebody who wrote into it later

std::string log_of(const std::string& recording);  // PATH-wal

// Throws std::runtime_error with the path: another application's, or of a format that this program does not read.
void require_recording(Connection& connection);

}  // namespace moescope
