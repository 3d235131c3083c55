// The options of moescope-cli train, and the runs that they name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/cli/command_line.h"
#include "core/cluster/ranks/ranks.h"
#include "core/config/config_difference.h"
#include "core/config/run_config.h"
#include "core/findings/comparison/comparison.h"
#include "core/numerics/recipes.h"
#include "core/training/trainer.h"

namespace moescope {

struct TrainOptions {
  std::string preset, config, from, precision, out, jsonl, checkpoint, resume, table;
  std::optional<std::string> data;
  std::vector<std::string> set, compare, dense_twins;
  std::optional<std::int64_t> steps, seed;
  std::int64_t checkpoint_interval = 0;
  std::string all_to_all;  // algorithm of the all-to-all; empty: flat
  std::string matrix_units;
  int threads = 0, ep = 0, ranks_per_node = 0;
  double epsilon = kGapEpsilon;
  bool overwrite = false, continues = false, portable = false, noise_twin = false, perturbed_twin = false;
  bool compares() const { return !compare.empty() || !dense_twins.empty() || noise_twin || perturbed_twin; }
};

// Adds --preset, --config and --set, the settings of a run; the texts follow the help of the first two. Returns
// --preset.
Option add_config_options(Command& sub, TrainOptions& o, const std::string& comparisons = {},
                          const std::string& twins = {});
void add_train_options(Command& sub, TrainOptions& o);  // all options of train

// Returns the recipe of --recipe; nullopt if `name` is empty. Throws std::runtime_error naming the recipes.
std::optional<Recipe> recipe_option(const std::string& name);

// The runs of the options. Both throw std::runtime_error with a line for each problem.
std::vector<RunConfig> fresh_configs(const TrainOptions& o);  // the run and its twins
std::vector<Trainer> resumed_trainers(const TrainOptions& o, Ranks* ranks);

// Restarts the program with the kernels that computed the checkpoint of --resume, if possible; call before MPI starts.
// Returns a note about the kernels; empty if they are the same or there is no readable checkpoint.
std::string kernels_of_checkpoint(const TrainOptions& o);

}  // namespace moescope
