// What a Trainer holds between two steps; shared by trainer.cpp and trainer_checkpoint.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/frame/router_stats.h"
#include "core/model/learner.h"
#include "core/parallel/replication.h"
#include "core/training/gradient_reference.h"
#include "core/training/routed_texts.h"
#include "core/training/specialisation_counter.h"
#include "core/training/trainer.h"

namespace moescope {

struct Trainer::State {
  State(const RunConfig& config, Weights weights, Ranks* ranks);
  void require_replayed() const;  // throws std::runtime_error where router.replay has no routing
  void plan_placements();
  std::shared_ptr<const TrainerSnapshot> snapshot(std::vector<SpecialisationFrame> counts) const;

  Learner<float> learner;
  std::vector<LoadWindow> windows;    // per MoE layer
  std::vector<LoadPlanner> planners;  // the same
  std::int64_t tokens_seen = 0;
  PhaseClock clock;
  std::optional<GradientReference> gradient_reference;  // while telemetry.gradient_every asks for it
  SpecialisationCounter specialisation;
  RoutedTexts texts;
};

}  // namespace moescope
