// The newest array of a router at or before a step. Logs have expert_bias, gate_mass and the like on some steps only;
// between these steps the last array is shown.
#pragma once

#include <cstdint>
#include <vector>

#include "core/recording/history/history.h"

namespace moescope {

// Keeps its last result, so that a cursor that moves forward reads only the frames that it passes.
class LastArray {
 public:
  using Member = std::vector<float> RouterFrame::*;
  static constexpr int kFramesBack = 200;  // number of frames that are searched backwards

  explicit LastArray(Member member) : member_(member) {}

  struct Found {
    std::int64_t step = -1;     // step of `values`; -1: not found in these frames
    std::vector<float> values;  // [E]
  };
  const Found& at(const History& history, int layer, std::int64_t step);

 private:
  Member member_;
  const History* history_ = nullptr;  // compared only, never dereferenced
  std::uint64_t truncations_ = 0;
  int layer_ = -1;
  std::int64_t from_ = 0, to_ = -1;  // `found_` is the result for steps in this range
  Found found_;
};

}  // namespace moescope
