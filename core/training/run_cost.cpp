#include "core/training/run_cost.h"

#include "core/model/layers/parameters.h"

namespace moescope {

RunCost run_cost(const RunConfig& config) {
  const ModelConfig& model = config.model;
  std::size_t arena = 0;
  std::int64_t routed = 0;
  RunCost cost;
  for (const ParameterTensor& tensor : parameter_layout(model, arena)) {
    const std::int64_t elements = tensor.elements();
    cost.parameters += elements;
    if (tensor.blocks() > 1) routed += elements;
  }
  cost.active = cost.parameters - routed + routed * config.router.top_k / model.n_experts;
  cost.bytes = 4 * sizeof(float) * arena;
  const std::int64_t embedding = std::int64_t{model.vocab} * model.dim;
  const std::int64_t head_dims = model.qk_nope_head_dim + model.qk_rope_head_dim + model.v_head_dim;
  const double attention = std::int64_t{model.n_layers} * model.n_heads * head_dims;
  cost.flops_per_token = 6.0 * (cost.active - embedding) + 6.0 * attention * config.data.seq;
  cost.flops_per_step = cost.flops_per_token * config.data.batch * config.data.seq;
  return cost;
}

}  // namespace moescope
