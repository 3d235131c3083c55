// Watches for jumps of the load in many layers at once (another kind of text, a changed setting), and for the layers
// that recover.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/findings/findings.h"
#include "core/frame/newest.h"
#include "core/history/step_axis.h"

namespace moescope {

// A jump: the mean MaxVio of the layers over 20 steps is kJump times that of the 100 steps before, and at least
// kLayerJump times in a share kJumpedLayers of the layers. Between independent batches of settled runs the factor was
// at most 1.25.
inline constexpr double kJump = 1.4, kLayerJump = 1.25, kJumpedLayers = 0.6;
// A layer has recovered when its mean of 50 steps is down to 1.2 times its former value. A layer that is still over 1.3
// times its former value after 300 steps, while at least half of the layers have recovered, does not recover. Recovery
// took 150 to 250 steps at a bias rate of 0.001. If fewer layers have recovered by then, the others are reported if
// their mean MaxVio is higher than before by kStaysHigher. Smaller batches have a higher MaxVio by chance, and their
// text varies more to the same extent, so all these thresholds are multiplied by the growth of the value of chance.
inline constexpr double kBack = 1.2, kNotBack = 1.3, kStaysHigher = 0.3;
inline constexpr std::int64_t kRecoverySteps = 300;

class ShiftWatch {
 public:
  ShiftWatch(const RunInfo& info, const StepAxis& axis);

  // MaxVio of the batches of steps [first, first + n), n is kBlock or less at the end: `whole` is the mean over layers,
  // `by_layer` is [layers, n]. `assignments`: T K of each batch.
  void block(std::int64_t first, std::span<const float> whole, std::span<const std::span<const float>> by_layer,
             std::span<const float> assignments);
  void findings(std::vector<Finding>& out) const;

 private:
  struct Batch {
    std::int64_t step;
    std::size_t block;
    float max_vio;
  };
  struct Shift {
    std::int64_t step = -1;
    std::size_t block = 0;  // value of blocks_seen_ at the end of the last block before the shift
    double chance_before = 0;
    std::vector<double> before;         // [layers] MaxVio of the 100 steps before the shift
    std::vector<std::int64_t> back_at;  // [layers] step of recovery; -1: not yet
    double mean_before = 0, mean_after = 0;
    std::int64_t over = -1;  // last step in which the shift was followed; -1: it is still followed
  };
  double mean(std::size_t layer, std::size_t begin, std::size_t end) const;  // mean over blocks [begin, end)
  double newest_mean(std::size_t layer) const;
  // Mean MaxVio by chance of blocks [begin, end); NaN: not known.
  double chance(std::size_t begin, std::size_t end) const;
  double chance_of_batches(std::span<const float> assignments);
  // Returns the growth of the value of chance since the blocks before the shift, at least 1.
  double grown(const Shift& shift) const;
  void look_for_jump(std::int64_t first);
  void follow();
  std::int64_t jump_step(std::int64_t first) const;
  Finding describe(const Shift& shift) const;
  void describe_left(const Shift& shift, const std::vector<std::size_t>& left, Finding& finding) const;
  void describe_stays(const Shift& shift, const std::vector<std::size_t>& left, Finding& finding) const;
  std::vector<std::size_t> not_back(const Shift& shift) const;
  static bool most_are_back(const Shift& shift);

  const StepAxis* axis_;
  std::vector<int> layers_;
  int run_;
  int n_experts_, top_k_;
  std::int64_t first_step_ = -1, last_step_ = -1;
  std::size_t blocks_seen_ = 0;            // blocks with a MaxVio
  std::vector<std::vector<float>> means_;  // [layers] mean MaxVio of each block, newest last
  std::int64_t chance_tokens_ = 0;         // number of tokens for chance_max_vio_
  double chance_max_vio_ = 0;
  std::vector<float> chances_;  // MaxVio of a batch by chance, for each block
  std::vector<Batch> whole_;    // batches of these blocks; max_vio is the mean over layers
  Newest<Shift, 32> shifts_;
};

}  // namespace moescope
