// Steps of an engine.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/training/engine/engine.h"

namespace moescope {

// Takes one step with every run that is training and returns the frames in the order of the runs.
inline std::vector<TelemetryFrame> step_frames(Engine& engine) {
  struct Kept : EngineObserver {
    std::vector<TelemetryFrame> frames;
    void frame(const TelemetryFrame& frame) override { frames.push_back(frame); }
  } kept;
  bool wants_one = true;
  engine.train([&] { return std::exchange(wants_one, false); }, kept);
  return std::move(kept.frames);
}

// Trains up to `step`, which is not taken, or up to trouble, and waits until the histories have the frames.
inline void train_until(Engine& engine, std::int64_t step) {
  EngineObserver nobody;
  engine.train([&] { return engine.next_step() < step && !engine.trouble(); }, nobody);
  engine.sink().flush();
}

}  // namespace moescope
