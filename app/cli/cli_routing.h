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
// Reads the newest step at or before `step`; -1: the last step. Throws std::runtime_error if there is no such run or
// step.
RecordedStep recorded_step(const std::string& path, int run, std::int64_t step);

// Selects the load of a layer of a recording, to route tokens by it.
struct LoadOptions {
  std::string recording;
  int run = 0, layer = -1;  // layer -1: the most uneven one
  std::int64_t step = -1;
};
struct RecordedLoad {
  std::vector<std::uint32_t> tokens_per_expert;
  std::string name;  // description of the load
};
// Throws std::runtime_error as recorded_step() does, or if the layer counted no tokens.
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
  int slots = 0;  // slots of a rank, for "balanced"; 0: as many as needed
  std::int64_t seed = 1;
};
// topk_TK: routing by which "balanced" places the experts. Throws std::runtime_error with the allowed names.
Placement placement_named(const PlacementOptions& options, std::span<const std::int32_t> topk_TK,
                          const ModelShape& shape);

}  // namespace moescope
