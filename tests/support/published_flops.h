// Number of parameters of a published shape, and FLOPs per token as TorchTitan counts them for MFU, forward and
// backward: 6 x (active parameters without embedding) + 6 L H (qk + v head dim) seq. Attention counts as full, although
// it is causal. Tests compare core/training/run_cost with this second formula.
#pragma once

#include <cstdint>

#include "core/cluster/model_shape.h"

namespace moescope {

struct ParameterCounts {
  std::int64_t total;
  std::int64_t dense;  // embedding, head, attention, norms and dense FFNs
  std::int64_t active;
};

// Derives the number of weights from a token's forward FLOPs, two per weight of a matrix; adds embedding and norms.
inline ParameterCounts parameter_counts(const ModelShape& s) {
  const auto weights = [](double flops) { return static_cast<std::int64_t>(flops / 2); };
  const ForwardFlops flops = forward_flops(s, 0);
  const std::int64_t layer_norms = 2 * s.dim + s.q_lora_rank + s.kv_lora_rank;
  const std::int64_t per_token = weights(flops.router + flops.shared_experts + flops.latent_projections);
  const std::int64_t experts = weights(flops.routed_experts);
  ParameterCounts counts;
  counts.dense = s.vocab * s.dim + weights(flops.head + flops.attention_linears + flops.dense_ffn) +
                 s.n_layers * layer_norms + s.dim;
  counts.total = counts.dense + per_token + experts / s.top_k * s.n_experts;
  counts.active = counts.dense + per_token + experts;
  return counts;
}

inline double published_flops_per_token(const ModelShape& s, std::int64_t seq) {
  const double attention =
      static_cast<double>(s.n_layers * s.n_heads * (s.qk_nope_head_dim + s.qk_rope_head_dim + s.v_head_dim));
  return 6.0 * static_cast<double>(parameter_counts(s).active - s.vocab * s.dim) +
         6.0 * attention * static_cast<double>(seq);
}

}  // namespace moescope
