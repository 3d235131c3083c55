// Watches the share of token copies that one MoE layer, or all of them together, drop because they are beyond the
// capacity of their expert.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "core/findings/findings.h"

namespace moescope {

// Dropped tokens: the mean of the newest 50 logged shares is a tenth or more, and has been for 100 of them. A balanced
// router with capacity factor 1 drops some per cent by chance, and one with 1.25 less than 1 % (Switch Transformer,
// arXiv:2101.03961, section 2.2).
inline constexpr double kMaxDroppedShare = 0.1;
inline constexpr std::int64_t kDroppedLoads = 100;

class DropWatch {
 public:
  DropWatch(int layer, int run) : layer_(layer), run_(run) {}  // layer kWholeRun: all MoE layers
  int layer() const { return layer_; }
  void block(std::int64_t first, std::span<const float> shares);  // of successive steps; kNoValue: nothing is dropped
  void findings(std::vector<Finding>& out) const;

 private:
  double mean() const;

  int layer_, run_;
  std::int64_t last_step_ = -1, first_step_ = -1, loads_ = 0;  // loads_: since `first_step_`
  std::deque<float> recent_;                                   // newest shares
};

}  // namespace moescope
