// The runs that the options of moescope-cli train name: from a preset or a file with what the options change, with
// their twins, or from a checkpoint. All that is wrong with them is found before the first step.
#pragma once

#include <string>
#include <vector>

#include "app/cli/cli_train_options.h"
#include "core/config/run_config.h"
#include "core/parallel/ranks.h"
#include "core/training/trainer.h"

namespace moescope {

// Both throw std::runtime_error, a line for each problem.
std::vector<RunConfig> fresh_configs(const TrainOptions& o);  // the run and its twins
std::vector<Trainer> resumed_trainers(const TrainOptions& o, Ranks* ranks);

// Restarts the program with the kernels that computed the checkpoint of --resume, where that is possible: before the
// ranks meet. What else there is to say of them; empty: they are the same, or there is no checkpoint to be read.
std::string kernels_of_checkpoint(const TrainOptions& o);

}  // namespace moescope
