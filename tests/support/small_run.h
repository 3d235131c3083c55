// The smallest config with all kinds of layers: one dense and two MoE layers, 8 experts, top-2. Tests change the
// settings that they are about.
#pragma once

#include "core/config/run_config.h"

namespace moescope {

inline RunConfig small_run() {
  RunConfig c;
  c.model.dim = 32;
  c.model.n_layers = 3;
  c.model.dense_inter = 64;
  c.model.n_heads = 2;
  c.model.kv_lora_rank = 16;
  c.model.qk_nope_head_dim = 8;
  c.model.qk_rope_head_dim = 8;
  c.model.v_head_dim = 8;
  c.model.n_experts = 8;
  c.model.moe_inter = 32;
  c.optimizer.warmup_steps = 2;
  c.optimizer.total_steps = 100;
  c.data.batch = 2;
  c.data.seq = 40;
  return c;
}

}  // namespace moescope
