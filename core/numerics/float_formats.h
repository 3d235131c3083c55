// Element formats of microscaling and their exact bit rules.
//
// Source: OCP Microscaling Formats (MX) v1.0. Where the standard leaves a choice open, torchao's rule applies.
//   format  s/e/m   bias  max       min normal  min subnormal  special codes
//   E4M3    1/4/3   7     448       2^-6        2^-9           0x7F, 0xFF NaN; no infinity
//   E5M2    1/5/2   15    57344     2^-14       2^-16          0x7C, 0xFC infinity; 0x7D-0x7F, 0xFD-0xFF NaN
//   E3M2    1/3/2   3     28        2^-2        2^-4           none
//   E2M3    1/2/3   1     7.5       1           2^-3           none
//   E2M1    1/2/1   1     6         1           2^-1           none
//   INT8    two's complement / 64; max 127/64, 0x80 decodes to -2 and is never produced
//   E8M0    scale only: value = 2^(code - 127), 255 NaN; no zero, no infinity, no sign
#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

namespace moescope {

enum class ElementFormat : std::uint8_t { e4m3, e5m2, e3m2, e2m3, e2m1, int8 };

// Codes of a format that are not finite. nan: the code of the largest magnitude is NaN. ieee: the codes with the
// largest exponent are infinity and NaN, as in IEEE 754.
enum class SpecialCodes : std::uint8_t { none, nan, ieee };

// One row of the table of formats, in the order of the enumeration. The table alone defines the formats and their
// layouts.
struct FormatTraits {
  const char* name;   // "e4m3"
  int bits;           // bits of one element
  int exponent_bits;  // 0 for int8
  int mantissa_bits;
  int bias;
  int emax;   // exponent of the largest value
  float max;  // largest finite value
  float min_normal;
  float min_subnormal;
  SpecialCodes special;
};
inline constexpr FormatTraits kElementFormats[] = {
    {"e4m3", 8, 4, 3, 7, 8, 448.0f, 0x1p-6f, 0x1p-9f, SpecialCodes::nan},
    {"e5m2", 8, 5, 2, 15, 15, 57344.0f, 0x1p-14f, 0x1p-16f, SpecialCodes::ieee},
    {"e3m2", 6, 3, 2, 3, 4, 28.0f, 0x1p-2f, 0x1p-4f, SpecialCodes::none},
    {"e2m3", 6, 2, 3, 1, 2, 7.5f, 1.0f, 0x1p-3f, SpecialCodes::none},
    {"e2m1", 4, 2, 1, 1, 2, 6.0f, 1.0f, 0x1p-1f, SpecialCodes::none},
    {"int8", 8, 0, 6, 0, 0, 127.0f / 64, 1.0f, 0x1p-6f, SpecialCodes::none},
};
inline constexpr int kNumElementFormats = std::size(kElementFormats);
constexpr const FormatTraits& traits(ElementFormat format) {
  return kElementFormats[static_cast<int>(format)];
}
std::optional<ElementFormat> element_named(std::string_view name);
std::string element_names();  // "e4m3, e5m2, ..."

// Rounds to nearest, ties to even, with gradual underflow. Values above the maximum and infinity give the maximum
// (saturation). Results that round to zero keep the sign, except in INT8. NaN gives the positive code of
// the largest magnitude, which is NaN if the format has one, and 0 for INT8.
std::uint8_t encode(ElementFormat format, float value);
float decode(ElementFormat format, std::uint8_t code);

float decode_e8m0(std::uint8_t code);

using Bf16 = std::uint16_t;  // upper 16 bits of the float32 with the same value

}  // namespace moescope
