// Measures the time of each phase of a step. Each moment belongs to exactly one phase.
#pragma once

#include <array>
#include <chrono>

#include "core/frame/frame.h"

namespace moescope {

class PhaseClock {
 public:
  // A new clock has started, with Phase::other.
  void start(Phase phase) {
    spent_.fill({});
    phase_ = phase;
    phase_begin_ = Clock::now();
  }
  void enter(Phase phase) {
    const Clock::time_point time = Clock::now();
    spent_[static_cast<std::size_t>(phase_)] += time - phase_begin_;
    phase_ = phase;
    phase_begin_ = time;
  }
  std::array<float, kNumPhases> milliseconds() {
    enter(phase_);
    std::array<float, kNumPhases> ms{};
    for (std::size_t i = 0; i < ms.size(); ++i) ms[i] = std::chrono::duration<float, std::milli>(spent_[i]).count();
    return ms;
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::array<Clock::duration, kNumPhases> spent_{};
  Phase phase_ = Phase::other;
  Clock::time_point phase_begin_ = Clock::now();
};

}  // namespace moescope
