// Checks whether a config can be trained, and estimates what its training needs.
#pragma once

#include <string>
#include <vector>

#include "core/config/run_config.h"
#include "core/io/file_problem.h"

namespace moescope {

using ConfigProblem = FileProblem;

// Number of trained parameters of the model.
double parameter_count(const RunConfig& config);
// Returns a rough lower bound on the bytes that training needs: 16 per parameter (weight, gradient, two moments) and
// the values that the forward pass keeps for the backward pass.
double memory_estimate(const RunConfig& config);

// Returns all problems; empty if the config can be trained.
std::vector<ConfigProblem> validate(const RunConfig& config);

}  // namespace moescope
