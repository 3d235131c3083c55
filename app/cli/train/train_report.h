// The outputs of moescope-cli train: progress, JSON lines, checkpoints, and a summary at the end.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>

#include "app/cli/train/cli_progress.h"
#include "app/cli/train/cli_train_options.h"
#include "app/cli/train/cli_train_outputs.h"
#include "core/cluster/ranks/ranks.h"
#include "core/files/text/report.h"
#include "core/findings/comparison/outcomes.h"
#include "core/training/engine/engine.h"
#include "core/training/train_totals.h"

namespace moescope {

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
