#include "core/model/learner.h"

#include <fmt/core.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "core/config/expert_list.h"
#include "core/model/moe/bias_rules.h"
#include "core/numerics/bf16_rounding.h"

namespace moescope {
namespace {

// Makes an outlier channel: multiplies the channel's gain in every ffn_norm by model.outlier_factor and divides the
// weights that read it (gate, w1 and w3 of dense, shared and routed experts) by it. Every output is unchanged except
// for rounding (SmoothQuant, arXiv:2211.10438, in reverse).
template <class T>
void make_outlier_channel(const ModelConfig& model, const ModelView<T>& weights) {
  if (model.outlier_factor == 1) return;
  const auto factor = static_cast<T>(model.outlier_factor);
  const Index channel = model.outlier_channel;
  const auto quieten = [&](const Matrix<T>& weight) {
    for (Index r = 0; r < weight.rows; ++r) weight.row(r)[channel] /= factor;
  };
  for (const LayerView<T>& layer : weights.layers) {
    layer.ffn_norm[channel] *= factor;
    quieten(layer.gate);
    quieten(layer.dense.w13);
    quieten(layer.shared.w13);
    quieten(layer.shared_gate);
    quieten(model.latent_dim > 0 ? layer.latent_down : layer.experts.w13);
  }
}

template <class T>
void set_biases(const std::string& list, const ModelConfig& model, std::vector<std::vector<T>>& expert_bias) {
  for (const auto& [at, value] : parse_experts(list, model, ListOf::values))
    expert_bias[at.first - model.n_dense_layers][at.second] = static_cast<T>(value);
}

}  // namespace

template <class T>
Learner<T>::Learner(const RunConfig& run_config, Weights weights, Ranks* ranks)
    : config(run_config),
      parameters(run_config.model),
      expert_bias(static_cast<std::size_t>(run_config.model.n_layers - run_config.model.n_dense_layers),
                  std::vector<T>(static_cast<std::size_t>(run_config.model.n_experts), T{0})),
      bias_momentum(expert_bias.size()),
      ranks_(ranks),
      slices_(optimizer_slices(parameters.runs())) {
  assign_to_optimizers();
  if (weights == Weights::zero) return;
  parameters.initialise(config.seed);
  begin();
}

template <class T>
void Learner<T>::begin() {
  parameters.perturb(config.perturbation);
  make_outlier_channel(config.model, parameters.weight_view);
  round_initial_weights<T>(config, slices_, parameters);
  set_biases(config.router.initial_bias, config.model, expert_bias);
  round_biases();
}

template <class T>
void Learner<T>::assign_to_optimizers() {
  const auto missing = parse_experts(config.optimizer.fault_missing_experts, config.model, ListOf::experts);
  const auto is_updated = [&](const ParameterTensor& tensor, int expert) {
    return is_of_rank({.expert = expert}, ranks_, config.model.n_experts) &&
           std::ranges::none_of(missing, [&](const auto& entry) {
             const auto& [layer, missing_expert] = entry.first;
             return missing_expert == expert && tensor.name.starts_with(fmt::format("layers.{}.moe.experts.", layer));
           });
  };
  const bool has_muon = config.optimizer.name == OptimizerName::muon;
  if (has_muon)
    for (const MuonMatrix& matrix : muon_matrices(config.model, parameters.tensors()))
      if (is_updated(*matrix.tensor, matrix.expert))
        (matrix.tensor->is_gate() ? gate_matrices_ : matrices_).push_back(matrix);
  for (const ParameterRun& slice : slices_) {
    if (!is_updated(*slice.tensor, slice.expert)) continue;
    if (slice.tensor->is_gate())
      gate_slices_.push_back(slice);
    else if (!has_muon || !is_moved_by_muon(*slice.tensor))
      own_slices_.push_back(slice);
  }
}

template <class T>
void Learner<T>::pin_biases() {
  set_biases(config.router.pinned_bias, config.model, expert_bias);
  round_biases();
}

template <class T>
void Learner<T>::round_biases() {
  if (config.router.bias_format == StoredFormat::fp32) return;
  for (std::vector<T>& bias : expert_bias) round_to_bf16(std::span(bias));
}

// Frozen gates get a gradient of zero, so that the gradient norm does not include them.
template <class T>
void Learner<T>::zero_gate_gradients() {
  for (const ParameterRun& slice : gate_slices_) std::ranges::fill(slice.in(parameters.gradients), T{0});
}

template <class T>
void Learner<T>::scale_expert_gradients() {
  const T factor = static_cast<T>(config.optimizer.fault_expert_gradient);
  if (factor == T{1}) return;
  for (const ParameterRun& slice : slices_)
    if (slice.expert >= 0)
      for (T& gradient : slice.in(parameters.gradients)) gradient *= factor;
}

// The gates have their own learning rate. Frozen gates are not updated.
template <class T>
void Learner<T>::update_weights(double lr, double gradient_scale) {
  const OptimizerArenas<T> arenas{parameters.gradients, parameters.weights, parameters.moment1, parameters.moment2};
  const auto by_adamw = [&](const std::vector<ParameterRun>& slices, double rate) {
    adamw_update<T>(config.optimizer, steps_taken, rate, gradient_scale, slices, arenas);
  };
  const auto by_muon = [&](const std::vector<MuonMatrix>& matrices, double rate) {
    muon_update<T>(config.optimizer, rate, gradient_scale, matrices, arenas);
  };
  by_adamw(own_slices_, lr);
  by_muon(matrices_, lr);
  if (config.router.frozen) return;
  const double gate_lr = lr * config.optimizer.router_lr_factor;
  if (config.optimizer.name == OptimizerName::muon)
    by_muon(gate_matrices_, gate_lr);
  else
    by_adamw(gate_slices_, gate_lr);
}

template <class T>
Losses Learner<T>::forward(const Batch& batch, bool quant_statistics, PhaseClock& clock, OperandTap* tap) {
  if (!model_ || !model_->fits(batch)) {
    model_.reset();  // freed first, so that two models never exist at the same time
    model_ = std::make_unique<Transformer<T>>(config, parameters, batch.sequences, batch.length, ranks_);
  }
  model_->set_tap(tap);
  model_->set_replayed(replayed);
  pin_biases();
  return model_->forward(batch, expert_bias, quant_statistics, clock, steps_taken);
}

template <class T>
StepResult Learner<T>::update(const Losses& losses, PhaseClock& clock) {
  clock.enter(Phase::optimizer);
  if (config.router.frozen) zero_gate_gradients();
  StepResult result{.losses = losses};
  sum_replicated_gradients();
  scale_expert_gradients();
  result.grad_norm = gradient_norm<T>(parameters.gradients, slices_, config.model.n_experts, ranks_);
  result.lr = learning_rate(config.optimizer, steps_taken);
  const double scale = std::min(1.0, config.optimizer.clip / (result.grad_norm + 1e-6));
  if (!config.router.frozen) update_biases();
  pin_biases();
  update_weights(result.lr, scale);
  const std::vector<T> largest = largest_scores_of_heads(*model_);
  result.max_logit = static_cast<double>(*std::ranges::max_element(largest));
  if (config.optimizer.qk_clip > 0)
    clip_queries_and_keys<T>(config.model, largest, static_cast<T>(config.optimizer.qk_clip), parameters.weight_view);
  round_state<T>(config, steps_taken, slices_, parameters);
  ++steps_taken;
  clock.enter(Phase::other);
  return result;
}

template <class T>
void Learner<T>::update_biases() {
  const RouterConfig& router = config.router;
  if (router.fault_stale_bias) return;
  for (std::size_t i = size(router.n_hash_layers); i < expert_bias.size(); ++i) {
    const RouterActivations<T>& routed = model_->moe()[i].router;
    if (router.balance_rule != BalanceRule::smebu) bias_momentum[i].clear();
    if (by_quantiles(router.balance_rule))
      balance_by_quantiles<T>(router, model_->part(), routed, expert_bias[i], model_->killed(i));
    else if (router.bias_update_rate > 0 && router.balance_rule == BalanceRule::smebu)
      update_by_smebu<T>(router, routed.rows_per_expert, expert_bias[i], bias_momentum[i], model_->killed(i));
    else if (router.bias_update_rate > 0)
      move_expert_bias<T>(expert_bias[i], directions(routed, model_->killed(i)), router.bias_update_rate,
                          router.bias_centring, model_->killed(i));
  }
}

template <class T>
std::vector<double> Learner<T>::directions(const RouterActivations<T>& routed, Mask killed) const {
  if (config.router.balance_rule == BalanceRule::proportional)
    return relative_shortfalls(routed.rows_per_expert, killed);
  if (config.router.count_format == StoredFormat::fp32) return bias_directions(routed.rows_per_expert, killed);
  return directions_in_bf16(bf16_counts(model_->part(), routed.sent(), config.model.n_experts), killed);
}

// Sums adjacent tensors in one message, so that there are few messages.
template <class T>
void Learner<T>::sum_replicated_gradients() {
  if (!ranks_) return;
  const std::vector<ParameterRun> runs = parameters.runs();
  for (std::size_t i = 0; i < runs.size();) {
    if (runs[i].expert >= 0) {
      ++i;
      continue;
    }
    const std::size_t first = runs[i].offset;
    std::size_t end = first;
    for (; i < runs.size() && runs[i].expert < 0; ++i) end = std::max(end, runs[i].offset + runs[i].count);
    sum_over_ranks(ranks_, parameters.gradients.subspan(first, end - first));
  }
}

template <class T>
void Learner<T>::gather_experts() {
  if (!ranks_) return;
  const int own_experts = config.model.n_experts / ranks_->size();
  for (const ParameterTensor& tensor : parameters.tensors()) {
    if (!tensor.is_of_experts()) continue;
    const std::size_t block = tensor.block_elements(), share = own_experts * block;
    for (const std::span<T> arena : {parameters.weights, parameters.moment1, parameters.moment2}) {
      std::vector<T> all = parameters.gather(tensor, arena);
      const std::vector<T> own_share(all.begin() + static_cast<std::ptrdiff_t>(share) * ranks_->rank(),
                                     all.begin() + static_cast<std::ptrdiff_t>(share) * (ranks_->rank() + 1));
      ranks_->gather_all(own_share.data(), share * sizeof(T), all.data());
      parameters.scatter(tensor, all, arena);
    }
  }
}

void check_ranks(const RunConfig& config, int ranks) {
  const auto refuse = [ranks](const std::string& reason) {
    throw std::runtime_error(fmt::format("a training over {} ranks: {}", ranks, reason));
  };
  const int shards = batch_shards(config.data.batch, config.data.seq);
  if (ranks < 1 || shards % ranks)
    refuse(fmt::format("a batch of {} sequences of {} tokens can be cut into {}; allowed: ranks that divide this",
                       config.data.batch, config.data.seq, shards));
  if (config.model.n_experts % ranks) refuse(fmt::format("they must divide the {} experts", config.model.n_experts));
  if (ranks > 1 && config.telemetry.gradient_every > 0)
    refuse("gradients cannot be compared with FP32; set telemetry.gradient_every to 0");
  if (ranks > 1 && (config.data.microbatches > 1 || config.data.padding > 0))
    refuse("the batch is one without padding; set data.microbatches to 1 and data.padding to 0");
  if (ranks > 1 && config.parallel.placement != "contiguous")
    refuse("experts are placed in order; set parallel.placement to contiguous");
  if (ranks == 1) return;
  for (int i = 0; i < config.model.n_layers * kNumGemmClasses; ++i) {
    const StepPrecision precision = step_precision(config, 0, i / kNumGemmClasses);
    const auto gemm_class = static_cast<GemmClass>(i % kNumGemmClasses);
    if (gemm_class == GemmClass::experts) continue;  // all rows of an expert are on one rank
    for (const OperandFormat& format : precision.class_precision(gemm_class).formats) {
      const bool over_tokens = has_tensor_scale(format) ||
                               (format.scheme == QuantScheme::fp8 && format.granularity == ScaleGranularity::row);
      if (over_tokens)
        refuse(std::string("precision.") + gemm_class_name(gemm_class) +
               " has a format whose scales span all tokens of the batch; choose one with blocks, such as mxfp8_rceil");
    }
  }
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
