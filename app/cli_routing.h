// What predict and volumes share: a step of a recording, and placements by their name.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/cluster/model_shape.h"
#include "core/parallel/placement.h"
#include "core/telemetry/frame.h"

namespace moescope {

struct RecordedStep {
  RunInfo info;
  std::shared_ptr<const TelemetryFrame> frame;  // with routers
};
// The newest at or before `step`, -1: the last. Throws std::runtime_error: no such run, or no such step.
RecordedStep recorded_step(const std::string& path, int run, std::int64_t step);

struct PlacementOptions {
  std::string name = "contiguous";  // "contiguous", "random", "balanced"
  int ranks = 32, ranks_per_node = 8;
  int slots = 0;  // of a rank, for balanced; 0: as many as it takes
  std::int64_t seed = 1;
};
// topk_TK: what it is balanced by. Throws std::runtime_error naming what is allowed.
Placement placement_named(const PlacementOptions& options, std::span<const std::int32_t> topk_TK,
                          const ModelShape& shape);

}  // namespace moescope
