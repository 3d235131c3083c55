// `volumes --write-placement`: experts placed by the recorded loads, for SGLang.
#pragma once

#include <cstdint>
#include <string>

namespace moescope {

struct PlacementPlanOptions {
  std::string recording;  // recording, or log with loads
  std::string out;
  int run = 0;
  std::int64_t until = -1;  // last step whose loads make the plan; -1: half of the steps
  int ranks = 32, ranks_per_node = 8, slots = 0, groups = 0;
  bool json = false, overwrite = false;
};

// Writes the plan, and prints the load of the fullest rank with experts in their order and by the plan: in the steps
// from which it was made, and in those after them. Throws std::runtime_error if the run has no such loads.
void write_placement_plan(const PlacementPlanOptions& options);

}  // namespace moescope
