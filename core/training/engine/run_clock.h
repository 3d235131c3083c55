// Measures wall time and speed of a run, which its trainer does not know.
#pragma once

#include <chrono>
#include <cmath>
#include <optional>

#include "core/training/trainer.h"

namespace moescope {

class RunClock {
 public:
  // One step of `trainer` as run number `run`, with run, wall_s and tokens_per_s filled in.
  TelemetryFrame step(Trainer& trainer, const Batch& batch, int run, OperandTap* tap = nullptr) {
    const auto begin = Clock::now();
    if (!start_) start_ = begin;
    TelemetryFrame frame = trainer.step(batch, tap);
    const auto end = Clock::now();
    frame.run = run;
    frame.wall_s = std::chrono::duration<double>(end - *start_).count();
    const double seconds = std::chrono::duration<double>(end - begin).count();
    frame.tokens_per_s = static_cast<float>(static_cast<double>(batch.input.size()) / seconds);
    return frame;
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> start_;
};

// A loss that is NaN or infinite stays so.
inline bool loss_is_not_finite(const TelemetryFrame& frame) {
  return !std::isfinite(frame.ce_loss) || !std::isfinite(frame.aux_loss) || !std::isfinite(frame.z_loss);
}

}  // namespace moescope
