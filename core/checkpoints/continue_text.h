// Continues a text token by token, with a cache of the tokens so far.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/checkpoints/checkpoint_model.h"

namespace moescope {

struct WrittenText {
  std::vector<std::int32_t> ids;
  double prefill_s = 0, decode_s = 0;  // times for the given tokens and for the new ones except the first
};
// Always takes the most probable token, the first one of equal ones. `ids` must not be empty.
WrittenText continue_text(const CheckpointModel& model, std::span<const std::int32_t> ids, int count);

}  // namespace moescope
