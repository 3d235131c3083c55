#include "core/training/expert_weights.h"

#include <array>
#include <cmath>

#include "core/numerics/quantize.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

using ExpertMatrices = std::array<Matrix<const float>, 3>;

// Returns w1, w3 and w2.
ExpertMatrices weights_of(const Learner<float>& learner, int layer, int expert) {
  const ModelConfig& m = learner.config.model;
  const FeedForwardView<float>& all = learner.parameters.weight_view.layers[layer].experts;
  return {all.w13.row_block(2 * expert * m.moe_inter, m.moe_inter),
          all.w13.row_block((2 * expert + 1) * m.moe_inter, m.moe_inter),
          all.w2.row_block(expert * m.row_dim(), m.row_dim())};
}

double norm_of(const ExpertMatrices& weights) {
  double sum = 0;
  for (const Matrix<const float>& w : weights)
    for (Index i = 0; i < w.size(); ++i) sum += w.data[i] * static_cast<double>(w.data[i]);
  return std::sqrt(sum);
}

float sqnr_of(const ExpertMatrices& weights, const OperandFormat& format) {
  if (is_plain(format)) return kNoValue;
  QuantSums sums;
  std::vector<float> decoded(weights[0].size());
  for (const Matrix<const float>& w : weights) {
    QuantSums tensor_sums;
    quantize_operand({w, format, BlockAxis::row, {}, &tensor_sums}, {decoded.data(), w.rows, w.cols});
    sums.add(tensor_sums);
  }
  return static_cast<float>(sums.sqnr_db());
}

// Returns 3 for "layers.3.moe.experts.w1".
int layer_of(const ParameterTensor& tensor) {
  return std::stoi(tensor.name.substr(tensor.name.find('.') + 1));
}

}  // namespace

double squares_of(std::span<const float> values, std::span<const float> less) {
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = values[i] - (less.empty() ? 0 : static_cast<double>(less[i]));
    sum += value * value;
  }
  return sum;
}

ExpertSteps::ExpertSteps(const Learner<float>& learner, bool enabled) {
  if (!enabled || learner.ranks()) return;
  for (const ParameterTensor& tensor : learner.parameters.tensors())
    if (tensor.is_of_experts()) before_.push_back(learner.parameters.gather(tensor, learner.parameters.weights));
}

void ExpertSteps::add(const Learner<float>& learner, std::vector<SpecialisationFrame>& layers) const {
  if (before_.empty()) return;
  const Parameters<float>& p = learner.parameters;
  const std::size_t experts = learner.config.model.n_experts;
  for (SpecialisationFrame& layer : layers) {
    std::vector<double> gradients(experts), updates(experts);
    std::size_t weight_index = 0;
    for (const ParameterTensor& tensor : p.tensors()) {
      if (!tensor.is_of_experts()) continue;
      const std::vector<float>& before = before_[weight_index++];
      if (layer_of(tensor) != layer.layer) continue;
      const std::size_t block = tensor.block_elements();
      parallel_for(learner.config.model.n_experts, [&](int e) {
        gradients[e] += squares_of(tensor.block_in(p.gradients, e));
        updates[e] += squares_of(tensor.block_in(p.weights, e), std::span(before).subspan(e * block, block));
      });
    }
    for (std::size_t e = 0; e < experts; ++e) {
      layer.gradient_norm_E.push_back(static_cast<float>(std::sqrt(gradients[e])));
      layer.update_norm_E.push_back(static_cast<float>(std::sqrt(updates[e])));
    }
  }
}

void add_expert_weights(const Learner<float>& learner, std::vector<SpecialisationFrame>& layers) {
  const int experts = learner.config.model.n_experts;
  for (SpecialisationFrame& layer : layers) {
    const StepPrecision precision = step_precision(learner.config, learner.steps_taken, layer.layer);
    const OperandFormat& format =
        precision.class_precision(GemmClass::experts).format(Direction::forward, OperandRole::w);
    layer.weight_norm_E.resize(experts);
    layer.weight_sqnr_E.resize(experts);
    parallel_for(experts, [&](int e) {
      const ExpertMatrices weights = weights_of(learner, layer.layer, e);
      layer.weight_norm_E[e] = static_cast<float>(norm_of(weights));
      layer.weight_sqnr_E[e] = sqnr_of(weights, format);
    });
  }
}

}  // namespace moescope
