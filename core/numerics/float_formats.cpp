#include "core/numerics/float_formats.h"

#include <array>
#include <bit>
#include <cmath>

#include "core/numerics/kernels/float_rounding.h"

namespace moescope {
namespace {

float decode_bits(ElementFormat format, std::uint8_t code) {
  if (format == ElementFormat::int8) return static_cast<float>(static_cast<std::int8_t>(code)) / 64;
  const FormatTraits& f = traits(format);
  const int largest = (1 << (f.bits - 1)) - 1, magnitude = code & largest;
  const float sign = code >> (f.bits - 1) & 1 ? -1.0f : 1.0f;
  const int exponent = magnitude >> f.mantissa_bits;
  const int mantissa = magnitude & ((1 << f.mantissa_bits) - 1);
  if (f.special == SpecialCodes::nan && magnitude == largest) return std::nanf("");
  if (f.special == SpecialCodes::ieee && exponent == largest >> f.mantissa_bits)
    return mantissa ? std::nanf("") : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), 1 - f.bias - f.mantissa_bits);
  return sign * std::ldexp(static_cast<float>(mantissa + (1 << f.mantissa_bits)), exponent - f.bias - f.mantissa_bits);
}

using DecodeTables = std::array<std::array<float, 256>, kNumElementFormats>;

DecodeTables make_decode_tables() {
  DecodeTables tables;
  for (int format = 0; format < kNumElementFormats; ++format)
    for (int code = 0; code < 256; ++code)
      tables[format][code] = decode_bits(static_cast<ElementFormat>(format), static_cast<std::uint8_t>(code));
  return tables;
}

std::uint8_t nan_code(ElementFormat format) {
  return format == ElementFormat::int8 ? 0 : static_cast<std::uint8_t>((1 << (traits(format).bits - 1)) - 1);
}

}  // namespace

std::optional<ElementFormat> element_named(std::string_view name) {
  for (int i = 0; i < kNumElementFormats; ++i)
    if (name == kElementFormats[i].name) return static_cast<ElementFormat>(i);
  return std::nullopt;
}

std::string element_names() {
  std::string names;
  for (const FormatTraits& f : kElementFormats) names += (names.empty() ? "" : ", ") + std::string(f.name);
  return names;
}

std::uint8_t encode(ElementFormat format, float value) {
  if (std::isnan(value)) return nan_code(format);
  return encode_number(rounding_of(format), value);
}

float decode(ElementFormat format, std::uint8_t code) {
  static const DecodeTables kTables = make_decode_tables();
  return kTables[static_cast<int>(format)][code];
}

float decode_e8m0(std::uint8_t code) {
  if (code == 255) return std::nanf("");
  return code == 0 ? 0x1p-127f : std::bit_cast<float>(static_cast<std::uint32_t>(code) << 23);
}

}  // namespace moescope
