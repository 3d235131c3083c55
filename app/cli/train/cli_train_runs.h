// The runs of moescope-cli train: a run from a preset or a file, changed by options, with its twins, or the runs of a
// checkpoint. All problems with them are found before the first step.
#pragma once

#include <string>
#include <vector>

#include "app/cli/train/cli_train_options.h"
#include "core/cluster/ranks/ranks.h"
#include "core/config/run_config.h"
#include "core/training/trainer.h"

namespace moescope {

// Both throw std::runtime_error with a line for each problem.
std::vector<RunConfig> fresh_configs(const TrainOptions& o);  // the run and its twins
std::vector<Trainer> resumed_trainers(const TrainOptions& o, Ranks* ranks);

// Restarts the program with the kernels that computed the checkpoint of --resume, if possible; call before MPI starts.
// Returns a note about the kernels; empty if they are the same or there is no readable checkpoint.
std::string kernels_of_checkpoint(const TrainOptions& o);

}  // namespace moescope
