// The open runs (A to E), which one thread trains in lock-step on the same batches.
//
// Every method may be called from any thread. All except flush() return immediately: they check the request, which the
// training thread serves between two steps (live_thread.h). Batches are those of run A's [data] section and seed:
// a run that differs from A only in `seed` starts from other weights and reads the same text. Runs are numbered 0, 1,
// ... in the order of opening (RunInfo::run). A number is never reused, so that a recording keeps runs that were
// removed. Letters are positions among the open runs: the first is A.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/config/config_field.h"
#include "core/config/run_config.h"
#include "core/recording/history/history.h"
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
  // `configs`: 1 to kMaxRuns configs that passed validate(), with equal [data] sections; duplicate names get a number.
  // Starts paused. Throws std::runtime_error if data or recording cannot be opened, or if `goes_on` returned false.
  LiveRuns(std::vector<RunConfig> configs, std::string recording_path,  // empty path: no recording
           const GoesOn& goes_on = {});
  // Continues with trainers that have taken equal numbers of steps, as runs 0, 1, ...
  LiveRuns(std::vector<Trainer> trainers, std::string recording_path, const GoesOn& goes_on = {});
  ~LiveRuns();  // finishes the current step and joins the thread

  // Adds a run that begins with step 0 and returns its number. When training continues, runs that are behind train
  // alone until all runs have the same step; run_until(status().step) only lets them catch up. The new run has the
  // settings that run A had at the start, except for the compared keys, in which `config` differs from run A's present
  // settings. Changes of run A during its training are repeated at the same steps, except for the compared keys. A
  // duplicate name gets a number. If the open runs were resumed, the new run begins at the same step from run A's
  // checkpoint and may differ in live keys only. Throws std::invalid_argument without any change if kMaxRuns runs are
  // open, the [data] section differs, or the config is not valid at the start or after one of these changes.
  int add_run(RunConfig config);
  // Ends the history of a run; its recording stays. Throws std::invalid_argument if there is no such run, or if it is
  // run A, whose batches all runs read.
  void remove_run(int run);

  std::vector<std::shared_ptr<const History>> histories() const;  // open runs, A first
  LiveStatus status() const;

  void run();                              // also continues after a NaN loss; does nothing after a failed step
  void pause();                            // after the current step
  void step_once();                        // pauses first if running
  void run_until(std::int64_t step);       // pauses before any run reaches `step`
  void set_max_steps_per_s(double limit);  // 0: no limit
  // Changes a setting before run A's next step (of a run that is catching up, when it reaches that step) and records a
  // marker "key old -> new". A change of data.mixture applies to all runs, whichever run it names, because all read
  // the same batches. Throws std::invalid_argument without any change if there is no such run, key or domain, if the
  // key is not live, or if the config would not pass validate().
  void change(const LiveChange& change);
  // Returns the kept checkpoints (checkpoint_ring.h): one for every telemetry.checkpoint_every steps of run A,
  // beginning with its first step.
  std::vector<KeptCheckpoint> checkpoints() const;
  void keep_checkpoint();  // keeps the present step; fails with status().warning while a run catches up
  // Pauses, and returns all runs to a kept checkpoint: weights, settings, mixture. Runs that have not reached its step
  // are unchanged. Later steps are deleted from the histories, and from the recording when the next step is recorded.
  // Training again without a change gives the same bits. Throws std::invalid_argument without any change if there is no
  // such checkpoint, or if it does not have all open runs.
  void rewind(std::int64_t step);
  // Adds a twin that continues from a kept checkpoint of `run` with `changes` of live keys, and catches up on run A's
  // batches; returns its number. Later changes of `run` are repeated at the same steps, except for these keys. Throws
  // std::invalid_argument without any change if there is no such checkpoint, kMaxRuns runs are open, or a change is
  // invalid.
  int branch(int run, std::int64_t step, const std::vector<LiveChange>& changes);
  // Adds a note to any step of a run (an empty text deletes the step's note, marks.h), or data of a run
  // (is_data_marker()), in its recording as well. A rewind to an earlier step deletes both.
  void pin(Marker marker);
  // Returns the run's settings with all accepted changes. Throws std::invalid_argument if there is no such run.
  RunConfig config(int run) const;
  // Writes DIRECTORY/<step>/<run name>.safetensors between two steps. A failure sets status().warning and adds a
  // marker; it also fails while a run catches up.
  void save_checkpoint(std::string directory);
  // Captures an operand of the run's next step just before it is quantized. While training is paused or the run waits
  // for others, the step is computed for display only and not taken (CapturedOperand::ahead). Training is not affected,
  // except that the frame of a step that is taken has quantization statistics. Throws std::invalid_argument if there is
  // no such run. The capture fails if the model has no such operand, the run is removed or training ends.
  std::shared_ptr<const Capture> capture(int run, const OperandPlace& place);
  // Returns the newest kept checkpoint of the run at or before `step`; nullptr if there is none.
  std::shared_ptr<const TrainerSnapshot> checkpoint_before(int run, std::int64_t step) const;
  // Waits until all earlier requests are served and all earlier frames are in the histories and in the recording. Does
  // not wait for the end of run(), run_until(), step_once() or captures.
  void flush();

 private:
  std::unique_ptr<Engine> engine_;  // used by the thread only, except for its sink
  std::unique_ptr<LiveState> state_;
  std::unique_ptr<LiveThread> thread_;  // last member: uses the state until it has ended
};

}  // namespace moescope
