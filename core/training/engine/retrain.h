// Trains a recorded run again: from the same state, with the same changes and batches, it computes the same bits.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/training/engine/engine.h"
#include "core/training/recorded_run.h"
#include "core/training/trainer_snapshot.h"

namespace moescope {

struct RecordedTraining {
  RunConfig config;                             // config at the first step
  std::shared_ptr<const TrainerSnapshot> from;  // state to start from; nullptr: use `from_file`
  std::string from_file;                        // checkpoint file; empty: begin with step 0
  StepChanges changes;                          // changes of the run; those before its first step are not applied
  RunConfig batches_of;                         // first run, whose [data] and seed give the batches
  StepChanges mixtures;                         // changes of data.mixture of the first run
};

// True if the losses have the same bits, or if both are NaN, because a recording does not keep the bits of a NaN.
bool same_loss(float a, float b);

// Returns the changes of data.mixture, which all runs share.
StepChanges mixture_changes(const StepChanges& changes);

// Trains the run again as run 0 of an engine and applies the recorded changes before each step; computes no flips and
// no validation loss. `before_step` is called before every step and `frame` with the frame of the step just taken; each
// returns false to stop. Passes on the exceptions of `before_step`. Throws std::runtime_error if data or a checkpoint
// cannot be read, or if a step or `frame` fails.
void retrain(const RecordedTraining& recorded, const std::function<bool(Engine&)>& before_step,
             const std::function<bool(const TelemetryFrame&)>& frame);

}  // namespace moescope
