// A config with one MoE layer, and functions that wait for LiveRuns, which train in a separate thread.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "core/training/engine/live_runs.h"

namespace moescope {

inline RunConfig one_layer(const char* name = "tiny") {
  RunConfig config;
  config.name = name;
  config.model = {.vocab = 256,
                  .dim = 32,
                  .n_layers = 2,
                  .n_dense_layers = 1,
                  .dense_inter = 64,
                  .n_heads = 2,
                  .q_lora_rank = 0,
                  .kv_lora_rank = 16,
                  .qk_nope_head_dim = 8,
                  .qk_rope_head_dim = 8,
                  .v_head_dim = 16,
                  .rope_theta = 1e4,
                  .norm_eps = 1e-5,
                  .n_experts = 4,
                  .moe_inter = 32,
                  .n_shared = 1};
  config.data = {.path = "", .batch = 2, .seq = 16};
  config.parallel = {.ranks = 2, .ranks_per_node = 2};
  config.optimizer.warmup_steps = 2;
  return config;
}

inline std::vector<float> all_losses(const History& history) {
  std::vector<float> values;
  for (std::int64_t step = history.steps().first; step <= history.steps().last; ++step)
    values.push_back(history.value_at(Metric::ce_loss, kWholeRun, step));
  return values;
}

// Returns true if `condition` becomes true within 30 seconds.
template <class Condition>
bool eventually(const Condition& condition) {
  for (int i = 0; i < 3000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

inline void run_to(LiveRuns& live, std::int64_t step) {
  live.run_until(step);
  ASSERT_TRUE(eventually([&] {
    const LiveStatus status = live.status();
    return status.step == step && !status.running && status.catching_up.empty();
  })) << live.status().error;
  live.flush();
}

}  // namespace moescope
