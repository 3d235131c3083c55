// Shared by predict and volumes: a step of a recording, a routing with its load, and placements by name.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/cluster/model_shape.h"
#include "core/frame/frame.h"
#include "core/parallel/placement.h"

namespace moescope {

struct RecordedStep {
  RunInfo info;
  std::shared_ptr<const TelemetryFrame> frame;  // with routers
};
// The newest at or before `step`, -1: the last. Throws std::runtime_error: no such run, or no such step.
RecordedStep recorded_step(const std::string& path, int run, std::int64_t step);

// The load of a layer of a recording, to route tokens with it.
struct LoadOptions {
  std::string recording;
  int run = 0, layer = -1;  // -1: the most uneven one
  std::int64_t step = -1;
};
struct RecordedLoad {
  std::vector<std::uint32_t> tokens_per_expert;
  std::string name;  // in words
};
// Throws std::runtime_error as above, or where that layer counted no tokens.
RecordedLoad recorded_load(const LoadOptions& options);
// Chosen experts of `tokens` tokens, the load stretched to the experts of `shape`; `node_limited`: inside the groups
// that the shape allows a token.
std::vector<std::int32_t> route_by_recorded_load(const RecordedLoad& load, const ModelShape& shape, std::int64_t tokens,
                                                 bool node_limited, std::int64_t seed);
// Whether an option names a file to take the routing from, and not a way to make it up.
bool names_routing_file(const std::string& routing);

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
