// Shared by predict and volumes: a step of a recording, the experts of tokens, and placements of the experts.
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

struct RoutingOptions {
  std::string routing = "forced";  // a rule, or a recording: the load of its router
  int run = 0, layer = -1;         // of the recording; layer -1: the most uneven one
  std::int64_t step = -1;          // of the recording; -1: the last
  bool node_limited = false;       // by a recorded load: inside the groups that the shape allows a token
  std::string placement = "contiguous";
  int ranks = 32, ranks_per_node = 8;
  int slots = 0;  // slots of a rank, for the placement "balanced"; 0: as many as needed
  std::int64_t seed = 1;
  // Whether `routing` names a file to take the routing from, and not a way to make it up.
  bool names_file() const;
};

struct ChosenExperts {
  std::vector<std::int32_t> topk_TK;
  std::string name;                 // description of the routing
  std::vector<std::uint32_t> load;  // recorded tokens of each expert; empty: by a rule
};
// Experts of `tokens` tokens. Throws std::runtime_error as recorded_step() does, if the layer counted no tokens, or
// with the allowed rules.
ChosenExperts choose_experts(const RoutingOptions& options, const ModelShape& shape, std::int64_t tokens);

// topk_TK: routing by which "balanced" places the experts. Throws std::runtime_error with the allowed names.
Placement placement_named(const RoutingOptions& options, std::span<const std::int32_t> topk_TK,
                          const ModelShape& shape);

}  // namespace moescope
