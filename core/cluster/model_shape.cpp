#include "core/cluster/model_shape.h"

#include <stdexcept>

#include "core/files/text/words.h"

namespace moescope {
namespace {

const ModelShape kShapes[] = {
    {"debugmodel", 2048, 256, 6, 1, 16, 0, 512, 128, 64, 128, 1024, 256, 8, 3, 2, 0, 0},
    {"16B", 102400, 2048, 27, 1, 16, 0, 512, 128, 64, 128, 10944, 1408, 64, 6, 2, 0, 0},
    {"236B", 102400, 5120, 60, 1, 128, 1536, 512, 128, 64, 128, 12288, 1536, 160, 6, 2, 8, 3},
    {"671B", 129280, 7168, 61, 3, 128, 1536, 512, 128, 64, 128, 18432, 2048, 256, 8, 1, 8, 4},
};

std::int64_t qk_head_dim(const ModelShape& s) {
  return s.qk_nope_head_dim + s.qk_rope_head_dim;
}

// Multi-head latent attention, without its norms.
std::int64_t attention_linear_parameters(const ModelShape& s) {
  const std::int64_t queries = s.n_heads * qk_head_dim(s);
  const std::int64_t q = s.q_lora_rank ? (s.dim + queries) * s.q_lora_rank : s.dim * queries;
  const std::int64_t kv =
      s.dim * (s.kv_lora_rank + s.qk_rope_head_dim) + s.kv_lora_rank * s.n_heads * (s.qk_nope_head_dim + s.v_head_dim);
  return q + kv + s.n_heads * s.v_head_dim * s.dim;
}

}  // namespace

const ModelShape& model_shape(std::string_view name) {
  for (const ModelShape& shape : kShapes)
    if (shape.name == name) return shape;
  throw std::runtime_error("model '" + std::string(name) +
                           "': no such shape; allowed: " + joined(kShapes, ", ", &ModelShape::name));
}

ForwardFlops forward_flops(const ModelShape& s, std::int64_t seq) {
  const auto flops_of = [](std::int64_t parameters) { return 2.0 * parameters; };
  ForwardFlops flops;
  flops.routed_experts = flops_of(s.n_moe_layers() * s.top_k * 3 * s.row_dim() * s.moe_inter);
  flops.shared_experts = flops_of(s.n_moe_layers() * s.n_shared_experts * 3 * s.dim * s.moe_inter);
  flops.latent_projections = flops_of(s.n_moe_layers() * 2 * s.dim * s.latent_dim);  // to latent rows and back
  flops.attention_linears = flops_of(s.n_layers * attention_linear_parameters(s));
  flops.dense_ffn = flops_of(s.n_dense_layers * 3 * s.dim * s.dense_inter);
  flops.router = flops_of(s.n_moe_layers() * s.dim * s.n_experts);
  flops.head = flops_of(s.vocab * s.dim);
  flops.attention = s.n_layers * s.n_heads * (qk_head_dim(s) + s.v_head_dim) * seq;
  return flops;
}

}  // namespace moescope
