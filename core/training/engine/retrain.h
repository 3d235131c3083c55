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
  RunConfig config;                             // of the run at its first step
  std::shared_ptr<const TrainerSnapshot> from;  // nullptr: `from_file`
  std::string from_file;                        // a checkpoint; empty: step 0
  StepChanges changes;                          // of the run; those before its first step here are not applied
  RunConfig batches_of;                         // the first run, whose [data] and seed gave all runs their batches
  StepChanges mixtures;                         // its changes of data.mixture
};

// Those of data.mixture, which is one for all runs.
StepChanges mixture_changes(const StepChanges& changes);

// Takes the steps again as run 0 of an engine, with the changes made before each, and without flips and validation.
// `before_step` and `frame`, of the step just taken, return false to end it. Throws what they throw, and
// std::runtime_error: data or a checkpoint that cannot be read, a step that fails.
void retrain(const RecordedTraining& recorded, const std::function<bool(Engine&)>& before_step,
             const std::function<bool(const TelemetryFrame&)>& frame);

}  // namespace moescope
