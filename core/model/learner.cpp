#include "core/model/learner.h"

#include <algorithm>

#include "core/model/adamw.h"

namespace moescope {

template <class T>
Learner<T>::Learner(const RunConfig& run_config, Weights weights)
    : config(run_config),
      parameters(run_config.model),
      expert_bias(static_cast<std::size_t>(run_config.model.n_layers - run_config.model.n_dense_layers),
                  std::vector<T>(static_cast<std::size_t>(run_config.model.n_experts), T{0})) {
  if (weights == Weights::initialised) parameters.initialise(config.seed);
}

template <class T>
Losses Learner<T>::forward(const Batch& batch, bool quant_statistics, PhaseClock& clock, OperandTap* tap) {
  const bool fits = model_ && model_->sequences() == batch.sequences && model_->length() == batch.length &&
                    model_->top_k() == config.router.top_k;
  if (!fits) {
    model_.reset();  // first, so that two never exist at once
    model_ = std::make_unique<Transformer<T>>(config, parameters, batch.sequences, batch.length);
  }
  model_->set_tap(tap);
  return model_->forward(batch, expert_bias, quant_statistics, clock, steps_taken);
}

template <class T>
StepResult Learner<T>::update(const Losses& losses, PhaseClock& clock) {
  clock.enter(Phase::optimizer);
  StepResult result{.losses = losses};
  result.grad_norm = gradient_norm(parameters.gradients, parameters.size());
  result.lr = learning_rate(config.optimizer, steps_taken);
  const double scale = std::min(1.0, config.optimizer.clip / (result.grad_norm + 1e-6));
  if (config.router.bias_update_rate > 0)
    for (std::size_t i = 0; i < expert_bias.size(); ++i)
      update_expert_bias<T>(expert_bias[i], model_->moe()[i].router.tokens_per_expert, config.router.bias_update_rate,
                            config.router.bias_centring);
  adamw_update(config.optimizer, steps_taken, result.lr, scale, parameters.size(), parameters.gradients,
               parameters.weights, parameters.moment1, parameters.moment2);
  ++steps_taken;
  clock.enter(Phase::other);
  return result;
}

template <class T>
StepResult Learner<T>::step(const Batch& batch, bool quant_statistics, PhaseClock& clock) {
  const Losses losses = forward(batch, quant_statistics, clock);
  backward(batch, clock);
  return update(losses, clock);
}

template class Learner<float>;
template class Learner<double>;

}  // namespace moescope
