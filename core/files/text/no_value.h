// Stands for a missing number: not computed at this step, absent from an imported log, or null in JSON.
#pragma once

#include <bit>
#include <cstdint>

namespace moescope {

// kNoValue is a NaN with a payload of its own (0xda7a), so that a loss that became NaN by arithmetic is not taken for a
// missing loss.
inline constexpr std::uint32_t kNoValueBits = 0x7fc0da7au;
inline constexpr float kNoValue = std::bit_cast<float>(kNoValueBits);
constexpr bool is_missing(float value) {
  return std::bit_cast<std::uint32_t>(value) == kNoValueBits;
}

}  // namespace moescope
