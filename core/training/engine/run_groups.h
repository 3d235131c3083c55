// Many runs in groups. The runs of a group train in lock-step, and the groups train one after the other.
//
// Candidates that cannot all train side by side form groups of run A and up to three candidates. Every such group
// trains run A again, with the same settings and seed on the same batches, which gives the same bits. Losses of
// candidates of different groups therefore compare as if all had trained together. This is checked at every step,
// because other kernels or a changed data file would invalidate it. A sweep (sweep.h) has groups of one run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/config/run_config.h"
#include "core/findings/comparison/outcomes.h"
#include "core/frame/frame.h"

namespace moescope {

inline constexpr int kMaxGroupSteps = 1'000'000'000;  // as many as the longest schedule

struct RunGroup {
  std::vector<RunConfig> runs;  // configs with different names
  std::string recording = {};   // path; empty: in memory only
  // Histories of `runs`; grow until the group has finished; empty: the group waits.
  std::vector<HistoryPtr> histories = {};
  bool finished = false;
};

// `runs`: run A, then its candidates. Every group begins with run A.
std::vector<RunGroup> candidate_groups(std::span<const RunConfig> runs, const std::string& recording = {});

// Returns the path of the group's own recording: "sweep-2.moescope" for "sweep.moescope" and group 2. Empty stays
// empty.
std::string path_of_group(const std::string& path, int number);

// Limit of the arrays in memory for each run: up to 22 histories are kept until the end.
inline constexpr std::size_t kQueueArrayBytes = std::size_t{32} << 20;

// Returns the outcomes of all groups in the order of outcomes(); run A's figures are those of the first group that has
// any.
std::vector<Outcome> group_outcomes(std::span<const RunGroup> groups);

// Returns `base_name`, with a number if that name is taken. Two twins may have one name (mxfp8 in the experts, mxfp8 in
// the attention), but runs and checkpoints need unique names.
std::string free_name(const std::string& base_name, std::span<const RunConfig> other_runs);

// Losses and gradient norms of run A in the first group, with which run A of the other groups is compared.
class Baseline {
 public:
  // Must be called for the steps of every group in order, beginning with the group's first step. Throws
  // std::runtime_error if loss or gradient norm differ from those of the first group in any bit.
  void check(const TelemetryFrame& frame_of_a);

 private:
  struct Step {
    std::uint32_t loss, grad_norm;  // bits
    bool operator==(const Step&) const = default;
  };
  std::vector<Step> steps_;
};

bool has_lost_its_loss(const History& run);  // true if the last loss is NaN or infinite

// Returns the histories of a group whose recording has all of its `steps`, or ends with a NaN or infinite loss; empty
// if it has not finished. `baseline` checks its run A. Throws std::runtime_error if the recording has other runs,
// settings or lengths, or cannot be read.
std::vector<HistoryPtr> finished_group(const RunGroup& group, std::int64_t steps, Baseline& baseline);

}  // namespace moescope
