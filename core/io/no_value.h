// Stands for a number that the source does not have: not computed at this step, not in an imported log, null in JSON.
#pragma once

#include <bit>
#include <cstdint>

namespace moescope {

// kNoValue is a NaN of its own kind (payload 0xda7a): a loss that became NaN by arithmetic is not a missing loss.
inline constexpr std::uint32_t kNoValueBits = 0x7fc0da7au;
inline constexpr float kNoValue = std::bit_cast<float>(kNoValueBits);
constexpr bool is_missing(float value) {
  return std::bit_cast<std::uint32_t>(value) == kNoValueBits;
}

}  // namespace moescope
