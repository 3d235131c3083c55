// Watches for jumps of the load in many layers at once (another kind of text, a changed setting), and which layers
// recover.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/telemetry/findings/findings.h"
#include "core/telemetry/findings/step_axis.h"
#include "core/telemetry/frame/newest.h"

namespace moescope {

// A jump: MaxVio over 20 steps, mean of the layers, is kJump times that of the 100 steps before, and in most layers at
// least kLayerJump times. Between independent batches of settled runs the factor reached 1.25 at most.
inline constexpr double kJump = 1.4, kLayerJump = 1.25, kJumpedLayers = 0.6;
// A layer has recovered when its mean of 50 steps is down to 1.2 times its former value; one still over 1.3 times after
// 300 steps, while half of the others are back, is not recovering. Recovery was seen to take 150 to 250 steps at a bias
// rate of 0.001.
inline constexpr double kBack = 1.2, kNotBack = 1.3;
inline constexpr std::int64_t kRecoverySteps = 300;

class ShiftWatch {
 public:
  ShiftWatch(std::vector<int> layers, int run, const StepAxis& axis);

  // MaxVio of the batches of steps [first, first + n), n at most kBlock, fewer only at the end: mean of the layers and
  // each layer's ([layers, n]).
  void block(std::int64_t first, std::span<const float> whole, const std::vector<std::vector<float>>& by_layer);
  void findings(std::vector<Finding>& out) const;

 private:
  struct Shift {
    std::int64_t step = -1;
    std::vector<double> before;         // [layers] MaxVio of the 100 steps before
    std::vector<std::int64_t> back_at;  // [layers] -1: not yet
    double mean_before = 0, mean_after = 0;
    std::int64_t over = -1;  // the last step that it was followed to; -1: it is the present one
  };
  double mean(std::size_t layer, std::size_t begin, std::size_t end) const;  // of blocks
  void look_for_jump(std::int64_t first);
  void follow();
  std::int64_t jump_step(std::int64_t first) const;
  Finding describe(const Shift& shift) const;
  std::vector<std::size_t> not_back(const Shift& shift) const;

  const StepAxis* axis_;
  std::vector<int> layers_;
  int run_;
  std::int64_t last_step_ = -1;
  std::size_t blocks_seen_ = 0;
  std::vector<std::vector<float>> means_;  // [layers] by block, the newest last
  std::vector<float> whole_;               // of the last 3 blocks, by step
  Newest<Shift, 32> shifts_;
};

}  // namespace moescope
