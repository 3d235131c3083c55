// What moescope-cli train writes besides its recording. A full disk ends an output, never the training: the reason is
// kept, printed once, and shows in the exit status.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "app/cli/train/cli_train_options.h"
#include "core/config/run_config.h"
#include "core/frame/frame.h"

namespace moescope {

// Remembers the identity of a file or folder, to notice that it was removed or replaced.
class WatchedPath {
 public:
  WatchedPath() = default;  // watches no path: is_there() is always true
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
  void write(const RunInfo& info);                         // call before the run's first frame
  const std::string& error() const { return error_; }      // why writing has ended; empty: it has not
  bool reader_is_gone() const { return reader_is_gone_; }  // the reader of the pipe is gone

 private:
  void write(const std::string& line);
  std::string path_, error_;
  bool reader_is_gone_ = false;
  std::FILE* file_ = nullptr;
  WatchedPath there_;
};

// The folder of --checkpoint, in which an engine writes the checkpoints.
class TrainCheckpoints {
 public:
  // Creates the folder; empty: no checkpoints. Throws std::runtime_error.
  explicit TrainCheckpoints(const std::string& folder);
  // Records that the checkpoint of `step` was written, or why it was not.
  void note(std::int64_t step, const std::string& problem);
  const std::string& newest() const { return newest_; }  // FOLDER/<step>; empty: none was written
  const std::string& error() const { return error_; }    // error of the last checkpoint; empty: none
  // Says which files were removed after they had been written; empty: none, or already reported.
  std::string removed();

 private:
  std::string folder_, newest_, error_;
  WatchedPath folder_there_, newest_there_;
};

struct TrainOutputs {
  explicit TrainOutputs(const std::string& checkpoint = {}, const std::string& jsonl = {})
      : checkpoints(checkpoint), lines(jsonl) {}
  TrainCheckpoints checkpoints;
  JsonLines lines;
};

// Finds all problems with the paths of the options before anything is written. Throws std::runtime_error.
void check_outputs(const TrainOptions& o, const std::vector<RunConfig>& configs);
std::string given_token();  // token of the environment for --serve; empty: not set

}  // namespace moescope
