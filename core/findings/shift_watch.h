// Watches for jumps of the load in many layers at once (another kind of text, a changed setting), and for the layers
// that recover.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/findings/findings.h"
#include "core/findings/load_evidence.h"
#include "core/frame/newest.h"
#include "core/recording/history/step_axis.h"

namespace moescope {

// A jump: the mean MaxVio of the layers over the newest loads (20 steps, at least 4 loads) is kJump times that of the
// loads before (100 steps, at least 12 loads), and at least kLayerJump times in a share kJumpedLayers of the layers.
// Between independent batches of settled runs the factor was at most 1.25 over these 20 steps. The rise must also be
// kJumpDeviations standard errors, which follow from the variation of the compared loads from one to the next, so that
// it includes what their texts change; among 240 made-up logs without a change the highest was 5.5.
inline constexpr double kJump = 1.4, kLayerJump = 1.25, kJumpedLayers = 0.6, kJumpDeviations = 7;
// A smaller rise of MaxVio does not matter, whatever the factor.
inline constexpr double kMinRise = 0.1;
// A layer has recovered when its mean of 50 steps is down to 1.2 times its former value, or higher than that by at most
// kMaxRecoveredRise. A layer that is still over 1.3 times its former value, and higher by kMinShiftedRise, after 300
// steps, does not recover. Recovery took 150 to 250 steps at a bias rate of 0.001. Smaller batches have a higher MaxVio
// by chance, and their text varies more to the same extent, so these thresholds grow with the value of chance.
inline constexpr double kMaxRecoveredRatio = 1.2, kMaxRecoveredRise = 0.15, kMinShiftedRatio = 1.3,
                        kMinShiftedRise = 0.3;
inline constexpr std::int64_t kRecoverySteps = 300;

class ShiftWatch {
 public:
  ShiftWatch(const RunInfo& info, const StepAxis& axis);

  // MaxVio of the batches of steps [first, first + n), n is kBlock or less at the end: `whole` is the mean over layers,
  // `by_layer` is [layers, n]. `assignments`: T K of each batch.
  void block(std::int64_t first, std::span<const float> whole, std::span<const std::span<const float>> by_layer,
             std::span<const float> assignments);
  void findings(std::vector<Finding>& out) const {
    for (const Shift& shift : shifts_) out.push_back(describe(shift));
  }

 private:
  // A load. `block` counts the blocks with a MaxVio.
  struct Batch {
    std::int64_t step;
    std::size_t block;
    float max_vio;  // mean over layers
    float chance;   // MaxVio by chance; NaN: not known
  };
  // Loads with the indices [begin, end) of `batches_`.
  struct Part {
    std::size_t begin = 0, end = 0;
    std::size_t size() const { return end - begin; }
  };
  struct Shift {
    std::int64_t step = -1;  // first load that shows it
    std::size_t block = 0;   // its block
    std::int64_t loads = 0;  // loads before it
    double chance_before = 0;
    std::vector<double> before;         // [layers] MaxVio before the shift
    std::vector<std::int64_t> back_at;  // [layers] step of recovery; -1: not yet
    double mean_before = 0, mean_after = 0;
    std::int64_t end_step = -1;  // last step in which the shift was followed; -1: it is still followed
  };
  double mean(std::size_t layer, Part part) const;
  double mean_of_layers(Part part) const;
  double deviation(Part part) const;  // standard deviation of the mean over layers from load to load
  double chance(Part part) const;     // mean MaxVio by chance; NaN: not known
  // Returns the loads of the newest `blocks` blocks before the load `end`, or of more blocks for `loads` loads.
  Part newest(std::size_t blocks, std::size_t loads, std::size_t end) const;
  Part newest(std::size_t blocks, std::size_t loads) const { return newest(blocks, loads, batches_.size()); }
  double newest_mean(std::size_t layer) const;
  double chance_of_batches(std::span<const float> assignments);
  // Returns the growth of the value of chance since the loads before the shift, at least 1.
  double grown(const Shift& shift) const;
  LoadSpan loads_since(const Shift& shift) const {
    return {loads_ - shift.loads, axis_->step(shift.step), axis_->step(batches_.back().step)};
  }
  bool is_judged(const Shift& shift) const { return loads_since(shift).lasts(kRecoverySteps); }
  bool is_back(const Shift& shift, std::size_t layer) const {
    const double usual = grown(shift) * shift.before[layer];
    return newest_mean(layer) <= std::max(kMaxRecoveredRatio * usual, usual + kMaxRecoveredRise);
  }
  bool stays_higher(const Shift& shift, std::size_t layer) const {
    const double usual = grown(shift) * shift.before[layer];
    return newest_mean(layer) > std::max(kMinShiftedRatio * usual, usual + kMinShiftedRise);
  }
  void look_for_jump();
  void follow();
  std::size_t first_of_jump(std::size_t begin) const;
  Finding describe(const Shift& shift) const;
  void describe_left(const Shift& shift, const std::vector<std::size_t>& unrecovered, Finding& finding) const;
  void describe_stays(const Shift& shift, const std::vector<std::size_t>& unrecovered, Finding& finding) const;
  std::vector<std::size_t> not_back(const Shift& shift) const;
  static bool most_are_back(const Shift& shift) {
    return 2 * std::ranges::count_if(shift.back_at, [](std::int64_t step) { return step >= 0; }) >=
           std::ssize(shift.back_at);
  }

  const StepAxis* axis_;
  std::vector<int> layers_;
  int run_;
  int n_experts_, top_k_;
  std::int64_t first_step_ = -1, last_step_ = -1;
  std::int64_t loads_ = 0;          // loads with a MaxVio
  std::size_t blocks_ = 0;          // blocks with a MaxVio
  std::int64_t chance_tokens_ = 0;  // number of tokens for chance_max_vio_
  double chance_max_vio_ = 0;
  std::vector<Batch> batches_;                // newest last
  std::vector<std::vector<float>> by_layer_;  // [layers] MaxVio of these loads
  Newest<Shift, 32> shifts_;
};

}  // namespace moescope
