// Checks whether a config can be trained, and estimates what its training needs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/config/config_field.h"
#include "core/config/run_config.h"
#include "core/files/unreadable.h"

namespace moescope {

using ConfigProblem = FileProblem;
struct LiveChange;

// Number of trained parameters of the model.
double parameter_count(const RunConfig& config);
// Returns a rough lower bound on the bytes that training needs: 16 per parameter (weight, gradient, two moments) and
// the values that the forward pass keeps for the backward pass.
double memory_estimate(const RunConfig& config);
double memory_of_machine();  // bytes

// Returns all problems; empty if the config can be trained. `lines`: those of settings in a file.
std::vector<ConfigProblem> validate(const RunConfig& config, const std::map<Setting, int>& lines = {});
std::string first_problem(const RunConfig& config);  // message of the first; empty if there is none
// Throws std::invalid_argument with the first problem.
void require_valid(const RunConfig& config);
inline constexpr const char* kNotLive = "cannot be changed while a run trains";
// Throws std::invalid_argument if the setting is not live, or if its value alone is not allowed.
void require_live(const LiveChange& change);

// False for settings that cannot matter: those of another bias rule, and faults that `config` does not have. Faults of
// trainings are for exhibits (assets/exhibits), which state them.
bool is_offered(const ConfigField& field, const RunConfig& config);

}  // namespace moescope
