// The outputs of moescope-cli train besides its recording. A full disk ends an output but not the training. The error
// is kept and printed once, and the exit status is then 1.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "app/cli/train/cli_train_options.h"
#include "core/config/run_config.h"
#include "core/frame/frame.h"

namespace moescope {

// Remembers which file is at a path, to notice that it was removed or replaced.
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

class JsonLinesOutput {
 public:
  explicit JsonLinesOutput(const std::string& path);  // "-": standard output; empty: writes nothing
  ~JsonLinesOutput();
  JsonLinesOutput(const JsonLinesOutput&) = delete;
  JsonLinesOutput& operator=(const JsonLinesOutput&) = delete;
  void write(const TelemetryFrame& frame);
  void write(const RunInfo& info);                         // call before the run's first frame
  const std::string& error() const { return error_; }      // why writing has ended; empty if it has not
  bool reader_is_gone() const { return reader_is_gone_; }  // true if the reader of the pipe has ended

 private:
  void write(const std::string& line);
  std::string path_, error_;
  bool reader_is_gone_ = false;
  std::FILE* file_ = nullptr;
  WatchedPath watched_path_;
};

// The folder of --checkpoint, or that beside the recording, in which the engine writes the checkpoints.
class TrainCheckpoints {
 public:
  // Creates the folder; an empty path means no checkpoints. Throws std::runtime_error if the folder cannot be written.
  explicit TrainCheckpoints(const std::string& folder);
  // Removes the folder if the training created it and wrote no checkpoint.
  ~TrainCheckpoints();
  TrainCheckpoints(const TrainCheckpoints&) = delete;
  TrainCheckpoints& operator=(const TrainCheckpoints&) = delete;
  // Removes the checkpoints of another training.
  void remove_earlier();
  // Records that the checkpoint of `step` was written, or why it was not.
  void note(std::int64_t step, const std::string& problem);
  const std::string& newest() const { return newest_; }  // FOLDER/<step>; empty if none was written
  const std::string& error() const { return error_; }    // error of the last checkpoint; empty if it was written
  // Returns a warning if the newest checkpoint was removed after it had been written, once for each; else empty.
  std::string removed();

 private:
  void find_removed();
  bool created_ = false;                           // true if the folder did not exist
  std::string folder_, newest_, error_, removed_;  // removed_: what removed() returns next
};

struct TrainOutputs {
  explicit TrainOutputs(const std::string& checkpoint = {}, const std::string& jsonl = {})
      : checkpoints(checkpoint), lines(jsonl) {}
  TrainCheckpoints checkpoints;
  JsonLinesOutput lines;
};

// True if the training goes on from the folder in which it keeps its checkpoints.
bool continues_checkpoints(const TrainOptions& o);
// Checks all paths of the options before anything is written. `configs`: those of all runs. Throws std::runtime_error.
void check_outputs(const TrainOptions& o, const std::vector<RunConfig>& configs);

}  // namespace moescope
