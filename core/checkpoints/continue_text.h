// Writes a text on, token by token, with a cache of the tokens so far.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/checkpoints/checkpoint_model.h"

namespace moescope {

struct WrittenText {
  std::vector<std::int32_t> ids;
  double prefill_s = 0, decode_s = 0;  // of the tokens given, and of those written but the first
};
// The likeliest token each time; of equal ones the first. `ids` is not empty.
WrittenText continue_text(const CheckpointModel& model, std::span<const std::int32_t> ids, int count);

}  // namespace moescope
