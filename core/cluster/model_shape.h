// Shapes of published DeepSeek models, and their FLOPs.
//
// Legend: V vocabulary, D dim, L layers, H heads, E routed experts, K top_k, F expert hidden dim (moe_inter). Source of
// the shapes: torchtitan, models/deepseek_v3.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace moescope {

struct ModelShape {
  std::string name;
  std::int64_t vocab, dim, n_layers, n_dense_layers, n_heads;
  std::int64_t q_lora_rank;  // 0: direct projection of queries
  std::int64_t kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim;
  std::int64_t dense_inter, moe_inter, n_experts, top_k, n_shared_experts;
  std::int64_t n_groups, limited_groups;  // 0: no group-limited routing
  std::int64_t latent_dim = 0;            // width of the rows of routed experts; 0: dim

  std::int64_t row_dim() const { return latent_dim ? latent_dim : dim; }  // width of the rows that the all-to-all sends
  std::int64_t n_moe_layers() const { return n_layers - n_dense_layers; }
};

// Returns the shape debugmodel, 16B, 236B or 671B. Throws std::runtime_error that names the known shapes.
const ModelShape& model_shape(std::string_view name);

// FLOPs per token that the hardware does in one forward pass. Attention is causal, so only half of the pairs count.
struct ForwardFlops {
  double routed_experts, shared_experts, latent_projections, attention_linears, dense_ffn, router, head, attention;
};
ForwardFlops forward_flops(const ModelShape& shape, std::int64_t seq);

}  // namespace moescope
