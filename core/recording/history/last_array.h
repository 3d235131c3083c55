// The newest array of a router at or before a step. Logs have expert_bias, gate_mass and the like on some steps only;
// between these steps the last array is shown.
#pragma once

#include <algorithm>
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

  const Found& at(const History& history, int layer, std::int64_t step) {
    const bool is_same_row = history_ == &history && layer_ == layer && truncations_ == history.truncations();
    if (!is_same_row) {
      from_ = 0;
      to_ = -1;
    }
    history_ = &history;
    layer_ = layer;
    truncations_ = history.truncations();
    if (from_ <= step && step <= to_) return found_;
    std::int64_t next = step;
    for (int i = 0; i < kFramesBack; ++i) {
      const auto frame = history.frame_at(next);
      if (!frame) break;
      if (from_ <= frame->step && frame->step <= to_) {  // `found_` is the result from here on
        to_ = std::max(to_, step);
        return found_;
      }
      const RouterFrame* router = find_router(frame.get(), layer);
      if (router && !(router->*member_).empty()) {
        found_ = {frame->step, router->*member_};
        from_ = frame->step;
        to_ = step;
        return found_;
      }
      next = frame->step - 1;
    }
    found_ = {};
    from_ = next + 1;
    to_ = step;
    return found_;
  }

 private:
  Member member_;
  const History* history_ = nullptr;  // compared only, never dereferenced
  std::uint64_t truncations_ = 0;
  int layer_ = -1;
  std::int64_t from_ = 0, to_ = -1;  // `found_` is the result for steps in this range
  Found found_;
};

}  // namespace moescope
