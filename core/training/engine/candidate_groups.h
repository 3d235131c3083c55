// Candidates that are more than can train side by side: groups of run A and up to three candidates, one after the
// other.
//
// Every group trains run A again, with the same settings and seed on the same batches, and the same settings and seed
// give the same bits. Losses of candidates of different groups therefore compare as if all had trained together. That
// is checked at every step rather than assumed: other kernels or a changed data file would break it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/config/run_config.h"
#include "core/frame/frame.h"
#include "core/training/engine/outcomes.h"

namespace moescope {

// `runs`: run A, then its candidates. Every group begins with run A.
std::vector<std::vector<RunConfig>> candidate_groups(std::span<const RunConfig> runs);

// Each group has a recording of its own: "sweep.moescope" -> "sweep-2.moescope" of group 2. Empty stays empty.
std::string path_of_group(const std::string& path, int number);

// Of arrays in memory for each run: up to 22 histories are kept until the end.
inline constexpr std::size_t kQueueArrayBytes = std::size_t{32} << 20;

struct CandidateGroup {
  std::vector<RunConfig> runs;             // run A first
  std::vector<HistoryPtr> histories = {};  // of `runs`; empty: it waits
};
// Of all groups, as outcomes() sorts them; run A's figures are those of the first group that has any.
std::vector<Outcome> group_outcomes(std::span<const CandidateGroup> groups);

// Two twins may have one name (mxfp8 in the experts, mxfp8 in the attention); runs and checkpoints need one each:
// `wanted`, or with a number behind it.
std::string free_name(const std::string& wanted, std::span<const RunConfig> taken);

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
