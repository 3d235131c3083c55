// Trainings with portable products, and the hashes of their losses, which are the same on every processor.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/lessons/digest.h"
#include "core/model/learner.h"
#include "core/numerics/matrix_units.h"

namespace moescope {

struct PortableTraining {
  const char* name;
  RunConfig config;
  const char* digest;  // of its losses
};

// The sizes of the preset nano.
inline RunConfig portable_config(Recipe recipe) {
  RunConfig c;
  c.portable = true;
  c.model.dim = 64;
  c.model.n_layers = 3;
  c.model.dense_inter = 160;
  c.model.n_heads = 2;
  c.model.kv_lora_rank = 32;
  c.model.qk_nope_head_dim = c.model.qk_rope_head_dim = 16;
  c.model.v_head_dim = 24;
  c.model.n_experts = 8;
  c.model.moe_inter = 64;
  c.optimizer.lr = 4e-3;
  c.optimizer.warmup_steps = 20;
  c.optimizer.total_steps = 1000;
  c.precision.experts = c.precision.shared_experts = c.precision.dense_ffn = c.precision.attention = recipe;
  if (recipe != Recipe::fp32) c.precision.head = c.precision.router_gate = Recipe::bf16;
  c.data.batch = 4;
  c.data.seq = 64;
  return c;
}

// Settings that use functions which the others do not: tanh, ln(1 + x), Muon, noise, stored BF16.
inline RunConfig config_with_other_functions() {
  RunConfig c = portable_config(Recipe::bf16);
  c.router.score_func = ScoreFunc::sqrtsoftplus;
  c.router.balance_rule = BalanceRule::smebu;
  c.router.gate_noise = 0.01;
  c.router.aux_mode = AuxMode::sequence;
  c.router.aux_coeff = c.router.z_coeff = 1e-3;
  c.optimizer.name = OptimizerName::muon;
  c.precision.activations = c.optimizer.master_format = StoredFormat::bf16;
  return c;
}

inline std::vector<PortableTraining> portable_trainings() {
  return {{"fp32", portable_config(Recipe::fp32), "54816cb8e07236cf"},
          {"bf16", portable_config(Recipe::bf16), "921d7236946ac028"},
          {"mxfp8", portable_config(Recipe::mxfp8_rceil), "1e353c4760d08693"},
          {"mxfp4", portable_config(Recipe::mxfp4), "8aa0fdc44ee279ea"},
          {"other_functions", config_with_other_functions(), "ed47e0f777ddf068"}};
}

// Cross-entropy of 30 steps: [30], nats.
inline std::vector<float> portable_losses(const RunConfig& config) {
  const PortableProducts products(config.portable);
  Learner<float> learner(config);
  const std::unique_ptr<Dataset> data = open_dataset(config.data, config.seed);
  PhaseClock clock;
  std::vector<float> losses;
  for (int step = 0; step < 30; ++step)
    losses.push_back(static_cast<float>(learner.step(data->batch(step), false, clock).losses.ce));
  return losses;
}

inline std::string digest_of_losses(const std::vector<float>& losses) {
  Digest digest;
  digest.add(losses);
  return digest.text();
}

}  // namespace moescope
