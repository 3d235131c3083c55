#include "core/training/engine/lock_step.h"

#include "core/config/config_difference.h"
#include "core/config/config_field.h"

namespace moescope {

std::string replay_problem(const RunConfig& first, const RunConfig& other) {
  if (first.router.replay)
    return "run " + first.name +
           " is the first, which has no other to replay: router.replay is for a twin, beside a run A that chooses";
  if (!other.router.replay) return {};
  const auto differ = [&](Setting setting, int a, int b) {
    return "run " + other.name + " cannot replay the routing of run " + first.name + ": " + setting.key() + " is " +
           std::to_string(b) + " against " + std::to_string(a);
  };
  const ModelConfig &a = first.model, &b = other.model;
  if (a.n_layers != b.n_layers) return differ(&ModelConfig::n_layers, a.n_layers, b.n_layers);
  if (a.n_dense_layers != b.n_dense_layers)
    return differ(&ModelConfig::n_dense_layers, a.n_dense_layers, b.n_dense_layers);
  if (a.n_experts != b.n_experts) return differ(&ModelConfig::n_experts, a.n_experts, b.n_experts);
  if (first.router.top_k != other.router.top_k)
    return differ(&RouterConfig::top_k, first.router.top_k, other.router.top_k);
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
