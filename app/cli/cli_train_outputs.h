// What moescope-cli train writes beside its recording. A disk that is full ends an output, never the training: why is
// kept, to be said once and to show in the exit status.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "core/telemetry/frame/frame.h"

namespace moescope {

// A file or folder as it is now, to notice that it was removed or that another took its place.
class WatchedPath {
 public:
  WatchedPath() = default;  // watches nothing, so it is always there
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
  const std::string& error() const { return error_; }      // why no more lines are written; empty: they are
  bool reader_is_gone() const { return reader_is_gone_; }  // so nobody wants what follows

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
  explicit TrainCheckpoints(const std::string& folder);  // makes it; empty: none. Throws std::runtime_error.
  using Write = std::function<void(const std::string& step_folder)>;
  bool save(std::int64_t step, const Write& write);      // false: error() says why
  const std::string& newest() const { return newest_; }  // FOLDER/<step>; empty: none was written
  const std::string& error() const { return error_; }    // of the last save
  // What was removed since it was written, in words; empty: nothing, or it was said before.
  std::string removed();

 private:
  std::string folder_, newest_, error_;
  WatchedPath folder_there_, newest_there_;
};

}  // namespace moescope
