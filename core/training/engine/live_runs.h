// The open runs (A to E), which one thread trains in lock-step on the same batches.
//
// Every method may be called from any thread. All but flush() return at once; requests are checked here and served by
// the training thread between two steps (live_thread.h).
// Batches are those of run A's [data] section and seed: a run that differs from A only in `seed` starts from other
// weights and reads the same text.
// Runs are numbered 0, 1, ... in the order in which they are opened (RunInfo::run); a number is never reused, so that a
// recording keeps runs that were removed. Letters are positions among the open runs: the first is A.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/config/config_field.h"
#include "core/config/run_config.h"
#include "core/history/history.h"
#include "core/training/capture.h"
#include "core/training/engine/checkpoint_ring.h"
#include "core/training/engine/engine.h"
#include "core/training/engine/live_status.h"
#include "core/training/trainer.h"

namespace moescope {

struct LiveState;
class LiveThread;

class LiveRuns {
 public:
  // 1 to kMaxRuns configs that passed validate(), with equal [data] sections; duplicate names get a number. Starts
  // paused. Throws std::runtime_error (data, recording; that the data was not to be read on).
  LiveRuns(std::vector<RunConfig> configs, std::string recording_path,  // empty path: no recording
           const GoesOn& goes_on = {});
  // Continues with trainers that have all taken the same number of steps, as runs 0, 1, ...
  LiveRuns(std::vector<Trainer> trainers, std::string recording_path, const GoesOn& goes_on = {});
  ~LiveRuns();  // stops after the step in flight and joins the thread

  // Adds a run that begins with step 0 and returns its number. While it trains (to catch up only:
  // run_until(status().step)), runs that are behind train alone until all are level. The new run gets run A's settings
  // as they were at the start, except for the keys in which `config` differs from run A's present settings: those are
  // the comparison. Changes made to A while it trained are repeated at the same steps, unless they concern these keys.
  // A duplicate name gets a number. Beside resumed runs it begins where they did, from run A's checkpoint, and may
  // differ in live keys only. Throws std::invalid_argument and changes nothing: kMaxRuns are open, another [data]
  // section, a config that is not valid (with those changes).
  int add_run(RunConfig config);
  // Its history ends, its recording stays. Throws std::invalid_argument: no such run, or run A, whose batches all runs
  // read.
  void remove_run(int run);

  std::vector<std::shared_ptr<History>> histories() const;  // of the open runs, A first
  LiveStatus status() const;

  void run();                         // also continues runs whose loss became NaN; does nothing after any other error
  void pause();                       // after the step in flight
  void step_once();                   // pauses first if it runs
  void run_until(std::int64_t step);  // pauses before any run reaches `step`
  void set_max_steps_per_s(double limit);  // 0: as fast as it can
  // Takes effect before run A's next step (for a run that is catching up, when it reaches that step) and is recorded as
  // a marker "key old -> new". A change of data.mixture applies to all runs, whichever it names, since all read the
  // same batches. Throws std::invalid_argument and changes nothing when there is no such run, key or domain, the key is
  // not live, or the config would not pass validate().
  void change(const LiveChange& change);
  // The kept checkpoints (checkpoint_ring.h): every telemetry.checkpoint_every steps of run A, including the first
  // step.
  std::vector<KeptCheckpoint> checkpoints() const;
  void keep_checkpoint();  // of the present step, by hand; fails with status().warning while a run catches up
  // Pauses, and takes all runs back to a kept checkpoint: weights, settings, mixture. Runs that are not that far yet
  // stay where they are. Later steps are deleted from the histories at once, from the recording when the next step is
  // recorded. Training again without a change gives the same bits. Throws std::invalid_argument and changes nothing: no
  // such checkpoint, or an open run that is not in it.
  void rewind(std::int64_t step);
  // Adds a twin that continues from a kept checkpoint of `run` with `changes` of live keys, and catches up on run A's
  // batches; returns its number. Later changes of `run` are repeated at the same steps, unless they concern these keys.
  // Throws std::invalid_argument and changes nothing: no such checkpoint, kMaxRuns are open, an invalid change.
  int branch(int run, std::int64_t step, const std::vector<LiveChange>& changes);
  // Pins a note to any step of a run, in its recording as well; an empty text deletes the step's note (notes.h).
  void pin_note(int run, std::int64_t step, std::string text);
  // The run's settings with all accepted changes; std::invalid_argument: no such run.
  RunConfig config(int run) const;
  // Writes DIRECTORY/<step>/<run name>.safetensors between two steps. A failure becomes status().warning and a marker;
  // it fails while a run catches up.
  void save_checkpoint(std::string directory);
  // Captures an operand of the run's next step just before it is quantized (CapturedOperand::ahead: while training is
  // paused or the run waits for others, the step is computed for display only and not taken). Training is not affected.
  // The run's next frame has quantization statistics, if the step is taken. Throws std::invalid_argument: no such run.
  // The capture fails if the model has no such operand, the run is removed or training ends.
  std::shared_ptr<const Capture> capture(int run, const OperandPlace& place);
  // The newest kept checkpoint of the run at or before `step`; nullptr: none.
  std::shared_ptr<const TrainerSnapshot> checkpoint_before(int run, std::int64_t step) const;
  // Waits until all earlier requests are served and all frames so far are in the histories and in the recording. It
  // does not wait for run(), run_until(), step_once() or captures to end.
  void flush();

 private:
  std::unique_ptr<Engine> engine_;  // the thread's, but for its sink
  std::unique_ptr<LiveState> state_;
  std::unique_ptr<LiveThread> thread_;  // last: it uses the state until it has ended
};

}  // namespace moescope
