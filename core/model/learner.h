// Model, gradients and optimizer state of one run, and one training step without telemetry. Named after
// fastai's Learner.
//
// Order of a step: forward, backward, gradient norm, expert_bias, AdamW or Muon, QK-clip, rounding of the values that
// are stored in BF16. As in TorchTitan, expert_bias is updated before the weights.
// Pinned biases are set before the forward pass and after the update of expert_bias.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/config/run_config.h"
#include "core/model/layers/parameters.h"
#include "core/model/layers/phase_clock.h"
#include "core/model/optimizer.h"
#include "core/model/text/dataset.h"
#include "core/model/transformer.h"

namespace moescope {

struct StepResult {
  Losses losses;
  double grad_norm = 0;  // before clipping
  double lr = 0;
  double max_logit = 0;  // largest attention score in the forward pass
};

enum class Weights {
  initialised,
  zero  // the caller fills in the weights, and calls begin() unless they come from a training that has begun
};

template <class T>
class Learner {
 public:
  // `ranks`, if given, must outlive the learner and fit the config: check_ranks().
  explicit Learner(const RunConfig& config, Weights weights = Weights::initialised, Ranks* ranks = nullptr);
  Learner(const Learner&) = delete;
  Learner& operator=(const Learner&) = delete;

  // Applies the settings that change weights and expert_bias before the first step: perturbation, outlier channel,
  // rounding, initial biases.
  void begin();

  StepResult step(const Batch& batch, bool quant_statistics, PhaseClock& clock);

  // The parts of a step. `tap`, if given, captures its operand in this forward pass or the next backward pass.
  Losses forward(const Batch& batch, bool quant_statistics, PhaseClock& clock, OperandTap* tap = nullptr);
  void backward(const Batch& batch, PhaseClock& clock) { model_->backward(batch, clock); }
  StepResult update(const Losses& losses, PhaseClock& clock);

  RunConfig config;  // live fields may change between two steps
  Parameters<T> parameters;
  std::vector<std::vector<T>> expert_bias;  // [MoE layer][E]
  // [MoE layer][E] of the rule smebu; the inner vectors are empty with other rules.
  std::vector<std::vector<T>> bias_momentum;
  std::int64_t steps_taken = 0;
  ReplayedExperts replayed;  // of the next forward passes
  const Transformer<T>& model() const { return *model_; }
  Ranks* ranks() const { return ranks_; }
  // Gathers the weights and moments of all experts on every rank, as a single process has them. Collective.
  void gather_experts();

 private:
  void assign_to_optimizers();
  void pin_biases();
  void round_biases();
  std::vector<double> directions(const RouterActivations<T>& routed, Mask killed) const;
  void zero_gate_gradients();
  void scale_expert_gradients();
  void update_biases();
  void update_weights(double lr, double gradient_scale);
  void sum_replicated_gradients();

  Ranks* ranks_;
  // Slices of all parameters; of those that AdamW updates on this rank, without the gates; and of the gates.
  std::vector<ParameterRun> slices_, own_slices_, gate_slices_;
  // Matrices that Muon updates on this rank, without the gates; and the gates.
  std::vector<MuonMatrix> matrices_, gate_matrices_;
  std::unique_ptr<Transformer<T>> model_;  // rebuilt when the batch's shape or top_k changes
};

// Throws std::runtime_error with the reason if a training with this config cannot be spread over `ranks` ranks.
void check_ranks(const RunConfig& config, int ranks);

}  // namespace moescope
