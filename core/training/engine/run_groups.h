// Many runs in groups: the runs of a group train in lock-step, and the groups one after the other.
//
// More candidates than can train side by side are groups of run A and up to three candidates. Every such group trains
// run A again, with the same settings and seed on the same batches, and the same settings and seed give the same bits.
// Losses of candidates of different groups therefore compare as if all had trained together. That is checked at every
// step rather than assumed: other kernels or a changed data file would break it.
// A sweep (sweep.h) has groups of one run.
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

struct RunGroup {
  std::vector<RunConfig> runs;             // of different names
  std::string recording = {};              // path; empty: in memory only
  std::vector<HistoryPtr> histories = {};  // of `runs`, which grow until it has finished; empty: it waits
  bool finished = false;
};

// `runs`: run A, then its candidates. Every group begins with run A.
std::vector<RunGroup> candidate_groups(std::span<const RunConfig> runs, const std::string& recording = {});

// Each group has a recording of its own: "sweep.moescope" -> "sweep-2.moescope" of group 2. Empty stays empty.
std::string path_of_group(const std::string& path, int number);

// Of arrays in memory for each run: up to 22 histories are kept until the end.
inline constexpr std::size_t kQueueArrayBytes = std::size_t{32} << 20;

// Of all groups of candidates, as outcomes() sorts them; run A's figures are those of the first group that has any.
std::vector<Outcome> group_outcomes(std::span<const RunGroup> groups);

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

bool has_lost_its_loss(const History& run);  // its last loss is NaN or infinite

// The histories of a group whose recording has all of its `steps`, or ends with a loss that is NaN or infinite; empty:
// it has not finished. `baseline` checks its run A. Throws std::runtime_error: a recording of other runs, settings or
// lengths; what cannot be read.
std::vector<HistoryPtr> finished_group(const RunGroup& group, std::int64_t steps, Baseline& baseline);

}  // namespace moescope
