// The arithmetic of rounding to an element format, inlined into the scalar encoder and into the vectorised block loops.
//
// Adding 2^(e + 23 - m) to a value with exponent e leaves a float32 whose last bit weighs 2^(e - m), so the addition
// itself rounds to m mantissa bits, nearest-even. Below the smallest normal number the exponent is held at that of this
// number, which gives gradual underflow. For INT8 it is held at 2^0 over the whole range.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "core/numerics/float_formats.h"

namespace moescope {

struct ElementRounding {
  std::int32_t min_normal_bits;  // float32 bits of the smallest normal
  std::int32_t magic_offset;     // (23 - m) << 23
  std::int32_t mantissa_bits;
  float max;
  std::uint8_t max_code;
  std::uint8_t sign_bit;  // 0 for int8
};

inline ElementRounding rounding_of(ElementFormat format) {
  const FormatTraits& f = traits(format);
  const int m = f.mantissa_bits;
  const std::int32_t min_normal_bits = std::bit_cast<std::int32_t>(f.min_normal);
  const int fields_above_min = f.emax - ((min_normal_bits >> 23) - 127);
  const int last = static_cast<int>(std::ldexp(f.max, m - f.emax)) - (1 << m);
  return {min_normal_bits,
          (23 - m) << 23,
          m,
          f.max,
          static_cast<std::uint8_t>(((fields_above_min + 1) << m) + last),
          static_cast<std::uint8_t>(format == ElementFormat::int8 ? 0 : 1 << (f.bits - 1))};
}

// Returns the bits of the number whose addition rounds `magnitude` (not above 2 * max).
inline std::int32_t rounding_magic_bits(const ElementRounding& f, float magnitude) {
  const std::int32_t exponent = std::bit_cast<std::int32_t>(magnitude) & 0x7F800000;
  return std::max(exponent, f.min_normal_bits) + f.magic_offset;
}

// Returns the nearest value of the format, saturating; `magnitude` must not be negative or NaN.
inline float round_magnitude(const ElementRounding& f, float magnitude) {
  const float clamped = magnitude < 2 * f.max ? magnitude : 2 * f.max;
  const float magic = std::bit_cast<float>(rounding_magic_bits(f, clamped));
  const float rounded = (clamped + magic) - magic;
  return rounded < f.max ? rounded : f.max;
}

// Returns the code without its sign.
inline std::int32_t encode_magnitude(const ElementRounding& f, float magnitude) {
  const float clamped = magnitude < 2 * f.max ? magnitude : 2 * f.max;
  const std::int32_t magic = rounding_magic_bits(f, clamped);
  const std::int32_t steps = std::bit_cast<std::int32_t>(clamped + std::bit_cast<float>(magic)) - magic;
  const std::int32_t fields_above_min = (magic - f.magic_offset - f.min_normal_bits) >> 23;
  return std::min<std::int32_t>((fields_above_min << f.mantissa_bits) + steps, f.max_code);
}

// Returns the code with its sign, saturating; `value` must not be NaN.
inline std::uint8_t encode_number(const ElementRounding& f, float value) {
  const std::int32_t bits = std::bit_cast<std::int32_t>(value);
  const std::int32_t magnitude = encode_magnitude(f, std::bit_cast<float>(bits & 0x7FFFFFFF));
  const std::int32_t with_sign = f.sign_bit ? magnitude | f.sign_bit : -magnitude;  // INT8 is two's complement
  return static_cast<std::uint8_t>(bits < 0 ? with_sign : magnitude);
}

// Converts float32 -> bfloat16 -> float32, rounding to nearest-even; NaN stays NaN.
inline float bf16_rounded(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000;
  const std::uint32_t quiet_nan = (bits | 0x00400000) & 0xFFFF0000;
  return std::bit_cast<float>((bits & 0x7FFFFFFF) > 0x7F800000 ? quiet_nan : rounded);
}

}  // namespace moescope
