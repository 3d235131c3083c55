#include <algorithm>
#include <chrono>

#include "core/checkpoints/checkpoint_model.h"

namespace moescope {
namespace {

using Clock = std::chrono::steady_clock;

// Keeps the most probable token after the last token of a pass.
class Likeliest : public PassWatch {
 public:
  void logits(Index, ConstMatrix<float> logits) override {
    const float* row = logits.row(logits.rows - 1);
    id = std::max_element(row, row + logits.cols) - row;
  }
  std::int32_t id = 0;
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

WrittenText continue_text(const CheckpointModel& model, std::span<const std::int32_t> ids, int count) {
  WrittenText text;
  KeyValueCache cache;
  Likeliest likeliest;
  const auto start = Clock::now();
  model.forward(ids, 1, std::ssize(ids), likeliest, &cache);
  text.prefill_s = seconds_since(start);
  const auto written = Clock::now();
  for (int i = 0; i < count; ++i) {
    text.ids.push_back(likeliest.id);
    if (i + 1 < count) model.forward(std::span(&text.ids.back(), 1), 1, 1, likeliest, &cache);
  }
  text.decode_s = seconds_since(written);
  return text;
}

}  // namespace moescope
