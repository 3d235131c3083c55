// The frames of an engine's steps.
#pragma once

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

}  // namespace moescope
