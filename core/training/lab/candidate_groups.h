// Candidates that are more than can train side by side: groups of run A and up to three candidates, one after the
// other.
//
// Every group trains run A again, with the same settings and seed on the same batches, and the same settings and seed
// give the same bits. Losses of candidates of different groups therefore compare as if all had trained together. That
// is checked at every step rather than assumed: other kernels or a changed data file would break it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/config/run_config.h"
#include "core/telemetry/frame/frame.h"

namespace moescope {

// `runs`: run A, then its candidates. Every group begins with run A and holds at most kMaxRuns.
std::vector<std::vector<RunConfig>> candidate_groups(std::span<const RunConfig> runs);

// Run A as the first group trained it.
class Baseline {
 public:
  // Steps in order, of every group from its first step on. Throws std::runtime_error if loss or gradient norm are not
  // the first group's to the bit.
  void check(const TelemetryFrame& frame_of_a);

 private:
  struct Step {
    std::uint32_t loss, grad_norm;  // bits
    bool operator==(const Step&) const = default;
  };
  std::vector<Step> steps_;
};

}  // namespace moescope
