// Checks whether a config can be trained, and estimates what its training needs.
#pragma once

#include <string>
#include <vector>

#include "core/config/run_config.h"

namespace moescope {

// A problem in a config: its place, and what is allowed.
struct ConfigProblem {
  std::string file;  // empty if the config did not come from a file
  int line = 0;      // from 1; 0 if unknown
  std::string key;
  std::string message;       // "top_k is 20, but there are 16 experts: choose 1 to 16"
  std::string text() const;  // "run.toml:12: router.top_k: ..."
};

// Number of trained parameters of the model.
double parameter_count(const RunConfig& config);
// Returns a rough lower bound on the bytes that training needs: 16 per parameter (weight, gradient, two moments) and
// the values that the forward pass keeps for the backward pass.
double memory_estimate(const RunConfig& config);

// Returns all problems; empty if the config can be trained.
std::vector<ConfigProblem> validate(const RunConfig& config);

}  // namespace moescope
