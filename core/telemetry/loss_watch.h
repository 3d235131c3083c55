// Watches the loss: no number any more, or a spike.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/telemetry/findings.h"

namespace moescope {

// A spike lies so many mean deviations (of the last 50 steps or so) above the smoothed loss, and 15 % above it. Losses
// of small batches vary by several mean deviations when another kind of text comes up; 12 were not seen without cause.
inline constexpr double kSpikeDeviations = 12, kSpikeShare = 0.15;

class LossWatch {
 public:
  explicit LossWatch(int run) : run_(run) {}
  void block(std::int64_t first, std::span<const float> loss, std::span<const float> grad_norm);
  void findings(std::vector<Finding>& out, std::span<const Marker> markers) const;

 private:
  struct Spike {
    StepRange steps;
    float highest = 0, before = 0, grad_norm = kNoValue;
  };
  void add(std::int64_t step, float loss, float grad_norm);

  int run_;
  std::int64_t last_step_ = -1, lost_since_ = -1, seen_ = 0;
  double mean_ = 0, deviation_ = 0, weight_ = 0;
  std::vector<Spike> spikes_;
};

}  // namespace moescope
