#include "core/recording/history/last_array.h"

#include <algorithm>

namespace moescope {

const LastArray::Found& LastArray::at(const History& history, int layer, std::int64_t step) {
  const bool is_same_row = history_ == &history && layer_ == layer && truncations_ == history.truncations();
  if (!is_same_row) from_ = 0, to_ = -1;
  history_ = &history, layer_ = layer, truncations_ = history.truncations();
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
      from_ = frame->step, to_ = step;
      return found_;
    }
    next = frame->step - 1;
  }
  found_ = {};
  from_ = next + 1, to_ = step;
  return found_;
}

}  // namespace moescope
