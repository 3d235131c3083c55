// The complete state of a training between two steps; immutable, so that threads can share it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/cluster/ranks/placement.h"
#include "core/config/run_config.h"
#include "core/frame/frame.h"
#include "core/frame/router_stats.h"

namespace moescope {

struct TrainerSnapshot {
  RunConfig config;  // with live changes
  std::int64_t steps_taken = 0, tokens_seen = 0;
  std::vector<float> weights, moment1, moment2;   // Parameters' arenas
  std::vector<std::vector<float>> expert_bias;    // [MoE layer][E]
  std::vector<std::vector<float>> bias_momentum;  // [MoE layer][E]; a layer has no values unless the rule is smebu
  std::vector<LoadWindow> windows;                // per MoE layer
  std::vector<LoadPlanner> planners;              // per MoE layer
  // Counts since the last specialisation frame, per MoE layer (routed_texts.h); empty: no counts.
  std::vector<SpecialisationFrame> specialisation;

  std::size_t bytes() const {
    std::size_t values = weights.size() + moment1.size() + moment2.size();
    for (const SpecialisationFrame& counts : specialisation)
      values += counts.domain_DE.size() + counts.together_EE.size() + counts.byte_256E.size();
    return values * sizeof(float);
  }
  // Writes one safetensors file (trainer_checkpoint.cpp). Throws std::runtime_error.
  void save(const std::string& path) const;
};

}  // namespace moescope
