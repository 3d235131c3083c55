#include "core/training/engine/lock_step.h"

#include "core/config/config_difference.h"
#include "core/config/config_field.h"

namespace moescope {

std::string replay_problem(const RunConfig& first, const RunConfig& other) {
  if (first.router.replay)
    return "run " + first.name +
           " is the first run, and no other run exists whose routing it can replay: set router.replay for a twin only";
  if (!other.router.replay) return {};
  for (const Setting setting : {Setting(&ModelConfig::n_layers), Setting(&ModelConfig::n_dense_layers),
                                Setting(&ModelConfig::n_experts), Setting(&RouterConfig::top_k)}) {
    const ConfigValue a = setting.field().get(first), b = setting.field().get(other);
    if (a != b)
      return "run " + other.name + " cannot replay the routing of run " + first.name + ": " + setting.key() + " is " +
             to_string(b) + " against " + to_string(a);
  }
  return {};
}

std::string lock_step_problem(const RunConfig& first, const RunConfig& other) {
  for (const ConfigDifference& found : difference(first, other))
    if (found.setting.is_in<DataConfig>())
      return "run " + other.name + " and run " + first.name + " differ in [data]: " + found.setting.key() + " is \"" +
             found.b + "\" against \"" + found.a + "\", but runs in lock-step read the same batches";
  if (first.model.vocab != other.model.vocab)
    return "run " + other.name + " and run " + first.name + " differ in model.vocab, but read the same tokens";
  if (!first.model.initial_weights.empty() && first.model.initial_weights == other.model.initial_weights &&
      first.seed != other.seed && first.perturbation == other.perturbation)
    return "run " + other.name + " differs from run " + first.name +
           " in the seed, but both begin with the weights of a checkpoint: choose another perturbation";
  return replay_problem(first, other);
}

}  // namespace moescope
