// Continues a text token by token, with a cache of the keys and values of the earlier tokens.
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
// Always takes the most probable token; among equally probable tokens, the one with the lowest id. `ids` must not be
// empty.
WrittenText continue_text(const CheckpointModel& model, std::span<const std::int32_t> ids, int count);

}  // namespace moescope
