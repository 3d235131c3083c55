// The options of moescope-cli train.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/cli/command_line.h"
#include "core/config/config_difference.h"
#include "core/findings/comparison/comparison.h"
#include "core/numerics/recipes.h"

namespace moescope {

struct TrainOptions {
  std::string preset, config, from, precision, out, jsonl, checkpoint, resume, table;
  std::optional<std::string> data;
  std::vector<std::string> set, compare, dense_twins;
  std::optional<std::int64_t> steps, seed;
  std::int64_t every = 0;
  std::string all_to_all;  // algorithm of the all-to-all; empty: flat
  std::string matrix_units;
  int threads = 0, ep = 0, ranks_per_node = 0;
  double epsilon = kGapEpsilon;
  bool overwrite = false, continues = false, noise_twin = false, perturbed_twin = false;
  bool compares() const { return !compare.empty() || !dense_twins.empty() || noise_twin || perturbed_twin; }
};

void add_train_options(Command& sub, TrainOptions& o);

// Returns the recipe of --recipe; nullopt if `name` is empty. Throws std::runtime_error naming the recipes.
std::optional<Recipe> recipe_option(const std::string& name);

}  // namespace moescope
