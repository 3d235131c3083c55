// The newest array of a router at or before a step: logs have expert_bias, gate_mass and the like on some steps only,
// and the last one still says more than none.
#pragma once

#include <cstdint>
#include <vector>

#include "core/history/history.h"

namespace moescope {

// Remembers what it found, so that a cursor that moves on reads only the frames that it passes.
class LastArray {
 public:
  using Member = std::vector<float> RouterFrame::*;
  static constexpr int kFramesBack = 200;  // farther back nothing is looked for

  explicit LastArray(Member member) : member_(member) {}

  struct Found {
    std::int64_t step = -1;     // that it is of; -1: none of the last frames has it
    std::vector<float> values;  // [E]
  };
  const Found& at(const History& history, int layer, std::int64_t step);

 private:
  Member member_;
  const History* history_ = nullptr;  // only compared
  std::uint64_t truncations_ = 0;
  int layer_ = -1;
  std::int64_t from_ = 0, to_ = -1;  // the steps for which `found_` is the answer
  Found found_;
};

}  // namespace moescope
