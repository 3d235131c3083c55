// What moescope-cli train writes besides its recording. A full disk ends an output, never the training: the reason is
// kept, printed once, and shows in the exit status.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>

#include "core/frame/frame.h"

namespace moescope {

// Remembers a file or folder, to notice that it was removed or replaced.
class WatchedPath {
 public:
  WatchedPath() = default;  // watches nothing: is_there() is always true
  explicit WatchedPath(std::string path);
  bool is_there() const;

 private:
  std::string path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

class JsonLines {
 public:
  explicit JsonLines(const std::string& path);  // empty: none, -: standard output. Throws std::runtime_error.
  ~JsonLines();
  JsonLines(const JsonLines&) = delete;
  JsonLines& operator=(const JsonLines&) = delete;
  void write(const TelemetryFrame& frame);
  void write(const RunInfo& info);                         // before the run's first frame
  const std::string& error() const { return error_; }      // why no more lines are written; empty: no error
  bool reader_is_gone() const { return reader_is_gone_; }  // nobody reads what follows

 private:
  void write(const std::string& line);
  std::string path_, error_;
  bool reader_is_gone_ = false;
  std::FILE* file_ = nullptr;
  WatchedPath there_;
};

// The folder of --checkpoint.
class TrainCheckpoints {
 public:
  explicit TrainCheckpoints(const std::string& folder);  // creates it; empty: none. Throws std::runtime_error.
  using Write = std::function<void(const std::string& step_folder)>;
  bool save(std::int64_t step, const Write& write);      // false: error() says why
  const std::string& newest() const { return newest_; }  // FOLDER/<step>; empty: none was written
  const std::string& error() const { return error_; }    // of the last save
  // What was removed since it was written, as text; empty: nothing, or already reported.
  std::string removed();

 private:
  std::string folder_, newest_, error_;
  WatchedPath folder_there_, newest_there_;
};

}  // namespace moescope
