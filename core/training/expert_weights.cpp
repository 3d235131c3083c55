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
  const FeedForwardView<float>& all = learner.parameters.weight_view.layers[static_cast<std::size_t>(layer)].experts;
  return {all.w13.row_block(2 * expert * m.moe_inter, m.moe_inter),
          all.w13.row_block((2 * expert + 1) * m.moe_inter, m.moe_inter),
          all.w2.row_block(expert * m.row_dim(), m.row_dim())};
}

double norm_of(const ExpertMatrices& weights) {
  double sum = 0;
  for (const Matrix<const float>& w : weights)
    for (Index i = 0; i < w.size(); ++i) sum += static_cast<double>(w.data[i]) * static_cast<double>(w.data[i]);
  return std::sqrt(sum);
}

float sqnr_of(const ExpertMatrices& weights, const OperandFormat& format) {
  if (is_plain(format)) return kNoValue;
  QuantSums sums;
  std::vector<float> decoded(weights[0].size());
  for (const Matrix<const float>& w : weights) {
    QuantSums own;
    quantize_operand({w, format, BlockAxis::row, {}, &own}, {decoded.data(), w.rows, w.cols});
    sums.add(own);
  }
  return static_cast<float>(sums.sqnr_db());
}

}  // namespace

void add_expert_weights(const Learner<float>& learner, std::vector<SpecialisationFrame>& layers) {
  const int experts = learner.config.model.n_experts;
  for (SpecialisationFrame& layer : layers) {
    const StepPrecision precision = step_precision(learner.config, learner.steps_taken, layer.layer);
    const OperandFormat& format = precision.of(GemmClass::experts).format(Direction::forward, OperandRole::w);
    layer.weight_norm_E.resize(static_cast<std::size_t>(experts));
    layer.weight_sqnr_E.resize(static_cast<std::size_t>(experts));
    parallel_for(experts, [&](int e) {
      const ExpertMatrices weights = weights_of(learner, layer.layer, e);
      layer.weight_norm_E[static_cast<std::size_t>(e)] = static_cast<float>(norm_of(weights));
      layer.weight_sqnr_E[static_cast<std::size_t>(e)] = sqnr_of(weights, format);
    });
  }
}

}  // namespace moescope
