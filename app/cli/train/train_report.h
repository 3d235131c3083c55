// The outputs of moescope-cli train: progress, JSON lines, checkpoints, and a summary at the end.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>

#include "app/cli/train/cli_progress.h"
#include "app/cli/train/cli_train_options.h"
#include "core/cluster/ranks/ranks.h"
#include "core/config/run_config.h"
#include "core/files/text/report.h"
#include "core/findings/comparison/outcomes.h"
#include "core/frame/frame.h"
#include "core/training/engine/engine.h"
#include "core/training/train_totals.h"

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

// An output of moescope-cli train besides its recording. A full disk ends an output but not the training. The error is
// kept and printed once, and the exit status is then 1.
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

// The training that a report describes.
struct TrainJob {
  std::int64_t end = 0;  // the training ends before this step
  // Exit status, set once training has ended: 0 if all steps were taken and all outputs written, 1 if not, 128 + signal
  // if a signal stopped it.
  int* status;
  Ranks* ranks = nullptr;    // nullptr: one process
  std::string kernels = {};  // note on the kernels that computed the checkpoint of --resume
  std::string group = {};    // "group 2 of 4"; empty: a training without groups
  double later = 0;          // work of the groups after this one, in multiples of it
  std::unique_ptr<TrainOutputs> outputs = std::make_unique<TrainOutputs>();  // outputs, written by rank 0
};

class TrainReport : public EngineObserver {
 public:
  // `options` and `engine` must outlive the report. Prints which runs train.
  TrainReport(const TrainOptions& options, Engine& engine, TrainJob job);

  // True if the next step should be taken; the same on all ranks, since the others would wait for a rank that ended.
  bool wants_step();
  void frame(const TelemetryFrame& frame) override;
  void twin_lost(const Trouble& trouble) override { say(trouble.text() + "; the others go on without it"); }
  void after_step(Engine& engine) override;
  void ended(Engine& engine) override;

 private:
  bool writes() const { return !job_.ranks || job_.ranks->rank() == 0; }
  const RunConfig& config() const { return engine_.first().trainer.config(); }
  void introduce();
  void save_checkpoint(bool last);
  void look_after_outputs();
  void say(const std::string& warning);
  void summarize();
  void add_steps(Report& report) const;
  void add_outputs(Report& report) const;

  const TrainOptions& o_;
  Engine& engine_;
  TrainJob job_;
  const std::int64_t first_;  // the first step of this training
  std::FILE* text_;           // stream of progress and summary
  Progress progress_;
  LastSteps last_;
  WireTotals wire_;
  std::string failure_;                               // error of an output or a step that ended the training early
  bool recording_said_ = false, lines_said_ = false;  // whether the error of the recording, or of the lines, was
                                                      // printed
  bool unwritten_ = false;                            // an output could not be written as requested
};

// Throws std::runtime_error unless `path` ends in .csv or .json.
void check_table_name(const std::string& path);
// Writes the table and prints its path to `text`; returns false after printing to stderr why it could not be written.
bool write_table(const std::string& path, std::span<const Outcome> outcomes, std::FILE* text);

}  // namespace moescope
