// What moescope-cli train says and writes while an engine trains: progress, JSON lines, checkpoints, frames for
// attached windows, and a summary at the end.
#pragma once

#include <cstdint>
#include <cstdio>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "app/cli/train/cli_progress.h"
#include "app/cli/train/cli_train_options.h"
#include "app/cli/train/cli_train_outputs.h"
#include "core/logs/run_feed.h"
#include "core/parallel/ranks.h"
#include "core/training/engine/engine.h"

namespace moescope {

// What a report is of, besides its engine.
struct TrainJob {
  std::int64_t end = 0;      // the step before which it ends
  Ranks* ranks = nullptr;    // nullptr: one process
  std::string kernels = {};  // what there is to say of those that computed the checkpoint of --resume
  std::string group = {};    // "group 2 of 4"; empty: a training by itself
  double later = 0;          // work of the groups behind it, in groups of this size
  std::unique_ptr<TrainOutputs> outputs = std::make_unique<TrainOutputs>();  // of rank 0
};

// Figures of the last steps of run A.
struct LastSteps {
  std::deque<float> losses;  // of the last 20, oldest first
  float max_vio = kNoValue, max_vio_window = kNoValue;

  void add(const TelemetryFrame& frame);
  double mean_loss() const;
};

// Bytes that the all-to-alls gave to the transport, against those that the routing says.
struct WireTotals {
  int ranks = 0;
  double sent = 0, counted = 0, ms = 0, steps = 0;

  void add(const TelemetryFrame& frame, const RunConfig& config);
  std::string text() const;  // empty: there was no all-to-all between ranks
};

class TrainReport : public EngineObserver {
 public:
  // `options` and `engine` outlive it. Says what trains, and serves it if that is asked for.
  TrainReport(const TrainOptions& options, Engine& engine, TrainJob job);
  ~TrainReport() override;

  bool wants_step();  // all ranks or none: one that ended would make the others wait
  void frame(const TelemetryFrame& frame) override;
  void twin_lost(const Trouble& trouble) override;
  void after_step(Engine& engine) override;
  void ended(Engine& engine) override;
  // 0: all steps were taken and every output is what was asked for; 1; 128 + the signal that stopped it. Once it ended.
  int status() const;

 private:
  bool writes() const { return !job_.ranks || job_.ranks->rank() == 0; }
  bool lost_its_loss() const { return engine_.trouble() && !engine_.trouble()->within_step; }
  const RunConfig& config() const { return engine_.first().trainer.config(); }
  void introduce();
  void serve();
  void save_checkpoint(bool last);
  void look_after_outputs();
  void end_feed();
  void say(const std::string& warning);
  void summarize();
  void summarize_steps();
  void summarize_outputs();
  void compare();

  const TrainOptions& o_;
  Engine& engine_;
  TrainJob job_;
  const std::int64_t first_;  // step
  std::FILE* text_;           // progress and summary
  Progress progress_;
  std::unique_ptr<RunFeed> feed_;  // for attached windows
  LastSteps last_;
  WireTotals wire_;
  std::string failure_;                               // what ended the training before its time, of outputs or a step
  bool recording_said_ = false, lines_said_ = false;  // that it ended
  bool unwritten_ = false;                            // an output is not what was asked for
};

}  // namespace moescope
