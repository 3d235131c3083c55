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
  std::shared_ptr<const TrainerSnapshot> from;  // nullptr: use `from_file`
  std::string from_file;                        // checkpoint file; empty: begin with step 0
  StepChanges changes;                          // changes of the run; those before its first step are not applied
  RunConfig batches_of;                         // first run, whose [data] and seed give the batches
  StepChanges mixtures;                         // changes of data.mixture of the first run
};

// True if the losses have the same bits or are both NaN, of which a recording keeps no bits.
bool same_loss(float a, float b);

// Returns the changes of data.mixture, which all runs share.
StepChanges mixture_changes(const StepChanges& changes);

// Takes the steps again as run 0 of an engine, with the changes before each step, without flips and validation.
// `before_step` and `frame` (frame of the step just taken) return false to stop. Passes on their exceptions; throws
// std::runtime_error if data or a checkpoint cannot be read, or if a step fails.
void retrain(const RecordedTraining& recorded, const std::function<bool(Engine&)>& before_step,
             const std::function<bool(const TelemetryFrame&)>& frame);

}  // namespace moescope
