// The open runs (A to D) and the one thread that trains them in lock-step on the same batches.
//
// Every method but flush() may be called from any thread and returns at once; what was asked happens between two steps.
// Batches are those of run A's [data] section and seed: a run that differs from A only in `seed` starts from other
// weights and reads the same text.
// Runs are numbered 0, 1, ... as they are opened (RunInfo::run); a number is never given twice, so that a recording
// keeps runs that were removed. Letters are places among the open runs: the first is A.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/config/run_config.h"
#include "core/telemetry/history/history.h"
#include "core/telemetry/recording/frame_sink.h"
#include "core/training/capture.h"
#include "core/training/checkpoint_ring.h"
#include "core/training/lock_step.h"
#include "core/training/trainer.h"

namespace moescope {

struct RunProgress {
  int run = 0;
  std::int64_t step = 0;  // next step to take
};

struct LabStatus {
  bool running = false;                  // false: paused, finished or failed
  std::int64_t step = 0;                 // next step that run A takes
  std::vector<RunProgress> catching_up;  // runs that joined later and are not level with A yet; A waits for them
  double tokens_per_s = 0;
  std::string error;    // why training stopped, empty: it did not fail
  std::string warning;  // what went wrong last without stopping it: a checkpoint or the recording; empty: nothing
};

class Lab {
 public:
  // 1 to kMaxRuns configs that passed validate(), with equal [data] sections; a name that is there twice gets a number.
  // Starts paused. Throws std::runtime_error (data, recording).
  Lab(std::vector<RunConfig> configs, std::string recording_path);  // empty path: no recording
  // Goes on with trainers that have all taken the same number of steps. Runs 0, 1, ...
  Lab(std::vector<Trainer> trainers, std::string recording_path);
  ~Lab();  // stops within a step and joins

  // Adds a run that begins with step 0; its number. While the lab runs (to catch up only: run_until(status().step)),
  // runs that lag are taken alone until all are level. It gets run A's settings as they were at the start, except for
  // the keys in which `config` differs from what run A's settings are now: those are the comparison. Changes that were
  // made to A while it trained are made to it at the same steps, unless they are of these keys. A name that is there
  // already gets a number. Beside runs that were resumed it begins where they did, from run A's checkpoint, and may
  // differ in live keys only. Throws std::invalid_argument, changing nothing: kMaxRuns are open, another [data]
  // section, a config that is not valid (with those changes).
  int add_run(RunConfig config);
  // Its history ends, its recording stays. Throws std::invalid_argument: no such run, or run A, whose batches they are.
  void remove_run(int run);

  std::vector<std::shared_ptr<History>> histories() const;  // of the open runs, A first
  LabStatus status() const;

  void run();        // a run whose loss became NaN is tried again; after any other error it stays as it is
  void pause();      // after the step in flight
  void step_once();  // pauses first if it runs
  void run_until(std::int64_t step);       // pauses before any run takes `step`
  void set_max_steps_per_s(double limit);  // 0: as fast as it can
  // Takes effect before run A's next step (a run that catches up gets there later) and is recorded as a marker "key old
  // -> new". A change of data.mixture is one for all runs, whichever it names, since all read the same batches. Throws
  // std::invalid_argument, changing nothing, when there is no such run, key or domain, the key is not live, or the
  // config would not pass validate().
  void change(const LiveChange& change);
  // What the ring holds (checkpoint_ring.h): every telemetry.checkpoint_every steps of run A, the first step among
  // them.
  std::vector<KeptCheckpoint> checkpoints() const;
  void keep_checkpoint();  // of now, by hand; while a run catches up it fails with status().warning
  // Pauses, and takes all runs back to a kept checkpoint: weights, settings, mixture. Runs that have not come so far
  // stay where they are. What came after is forgotten, of histories at once, of the recording when the next step is
  // recorded. Trained again without a change it comes out the same to the bit. Throws std::invalid_argument, changing
  // nothing: no such checkpoint, or an open run that is not in it.
  void rewind(std::int64_t step);
  // A twin that goes on from what `run` was at a kept checkpoint, with `changes` of live keys, and catches up on run
  // A's batches; its number. Later changes of `run` are made to it at the same steps, unless of these keys. Throws
  // std::invalid_argument, changing nothing: no such checkpoint, kMaxRuns are open, a change that cannot be.
  int branch(int run, std::int64_t step, const std::vector<LiveChange>& changes);
  void note(std::string text);  // pinned to the next step of every run
  // Pinned to any step of a run, and into its recording; an empty text takes the step's note away (notes.h).
  void pin_note(int run, std::int64_t step, std::string text);
  // With all changes that were accepted; std::invalid_argument: no such run.
  RunConfig config(int run) const;
  // Between two steps: DIRECTORY/<step>/<run name>.safetensors. Failure becomes status().warning and a marker; while a
  // run catches up it fails.
  void save_checkpoint(std::string directory);
  // An operand of the run's next step, copied as it enters its quantizer (CapturedOperand::ahead: while the lab is
  // paused or the run waits for others, the step is computed for the picture only and not taken). Nothing of the
  // training changes. The run's next frame has quantization statistics, if the step is taken. Throws
  // std::invalid_argument: no such run. Fails: the model has no such operand, the run is removed, the lab ends.
  std::shared_ptr<const Capture> capture(int run, const OperandPlace& place);
  // The newest kept checkpoint of the run at or before `step`; nullptr: none.
  std::shared_ptr<const TrainerSnapshot> checkpoint_before(int run, std::int64_t step) const;
  // Waits until what was asked before is done and all frames so far are in the histories and in the recording.
  // It does not wait for run(), run_until(), step_once() or captures to end.
  void flush();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moescope
