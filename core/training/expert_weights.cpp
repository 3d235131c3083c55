#include "core/training/expert_weights.h"

#include <array>
#include <cmath>

#include "core/model/layers/operand.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

struct ExpertMatrix {
  const float* data;
  int rows, cols;
  std::size_t size() const { return static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols); }
};

std::array<ExpertMatrix, 3> weights_of(const Learner<float>& learner, int layer, int expert) {
  const ModelConfig& m = learner.config.model;
  const FeedForwardView<float>& all = learner.parameters.weight_view.layers[static_cast<std::size_t>(layer)].experts;
  const int row = m.row_dim();
  const ExpertMatrix w1{nullptr, m.moe_inter, row};
  const std::size_t at = static_cast<std::size_t>(expert) * w1.size();
  return {{{all.w13 + 2 * at, m.moe_inter, row},
           {all.w13 + 2 * at + w1.size(), m.moe_inter, row},
           {all.w2 + at, row, m.moe_inter}}};
}

double norm_of(const std::array<ExpertMatrix, 3>& weights) {
  double sum = 0;
  for (const ExpertMatrix& w : weights)
    for (std::size_t i = 0; i < w.size(); ++i) sum += static_cast<double>(w.data[i]) * static_cast<double>(w.data[i]);
  return std::sqrt(sum);
}

float sqnr_of(const std::array<ExpertMatrix, 3>& weights, const OperandFormat& format) {
  if (is_plain(format)) return kNoValue;
  QuantSums sums;
  std::vector<float> decoded(weights[0].size());
  for (const ExpertMatrix& w : weights) {
    QuantSums own;
    quantize_alone(format, w.data, w.rows, w.cols, static_cast<std::size_t>(w.cols), BlockAxis::row, {}, decoded.data(),
                   &own);
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
      const std::array<ExpertMatrix, 3> weights = weights_of(learner, layer.layer, e);
      layer.weight_norm_E[static_cast<std::size_t>(e)] = static_cast<float>(norm_of(weights));
      layer.weight_sqnr_E[static_cast<std::size_t>(e)] = sqnr_of(weights, format);
    });
  }
}

}  // namespace moescope
