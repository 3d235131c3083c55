// State of a Trainer between two steps; shared by trainer.cpp and trainer_checkpoint.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/cluster/ranks/placement.h"
#include "core/frame/router_stats.h"
#include "core/model/learner.h"
#include "core/model/non_finite.h"
#include "core/training/gradient_reference.h"
#include "core/training/routed_texts.h"
#include "core/training/trainer.h"

namespace moescope {

struct Trainer::State {
  State(const RunConfig& config, Weights weights, Ranks* ranks);
  void require_replayed() const;  // throws std::runtime_error if router.replay is set without a routing
  void plan_placements();

  Learner<float> learner;
  std::vector<LoadWindow> windows;    // per MoE layer
  std::vector<LoadPlanner> planners;  // per MoE layer
  std::int64_t tokens_seen = 0;
  PhaseClock clock;
  std::optional<GradientReference> gradient_reference;  // exists while telemetry.gradient_every is above 0
  SpecialisationCounter specialisation;
  RoutedTexts texts;
  std::optional<NonFinitePlace> non_finite;  // of the last step
};

}  // namespace moescope
