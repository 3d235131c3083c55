// Quantizing sixteen values at once: what every scheme does to a value once its scale is known.
#pragma once

#include <cstdint>

#include "core/numerics/counter_bits.h"
#include "core/numerics/float_rounding.h"
#include "core/numerics/lanes.h"

namespace moescope {

using Floats = Lanes<float>;
using Ints = Lanes<std::int32_t>;
using Words = Lanes<std::uint32_t>;

inline constexpr std::int32_t kMagnitudeMask = 0x7FFFFFFF;
inline constexpr std::int32_t kInfinityBits = 0x7F800000;

MOESCOPE_INLINE Ints magnitude_bits(Floats x) {
  return (Ints)x & kMagnitudeMask;
}
MOESCOPE_INLINE Ints larger(Ints a, Ints b) {
  return a > b ? a : b;
}
// 1 where `bits`, which are not negative, are not 0.
MOESCOPE_INLINE Ints one_if_any(Ints bits) {
  return bits < 1 ? bits : Ints{} + 1;
}

// How values become elements, chosen at compile time: each costs more than the one before.
enum class Way : std::uint8_t {
  nearest,             // y = x * encode; the scale lets nothing exceed the element's maximum
  saturating,          // larger values become the maximum
  divided,             // y = x / decode, saturating
  stochastic,          // y = x * encode, saturating
  stochastic_divided,  // y = x / decode, saturating
};
constexpr bool is_stochastic(Way way) {
  return way == Way::stochastic || way == Way::stochastic_divided;
}
constexpr bool divides(Way way) {
  return way == Way::divided || way == Way::stochastic_divided;
}

// `y`: magnitudes in units of the element, at most 2 * max.
MOESCOPE_INLINE Floats round_nearest(const ElementRounding& f, Floats y) {
  const Floats magic = (Floats)(larger((Ints)y & kInfinityBits, Ints{} + f.min_normal_bits) + f.magic_offset);
  return (y + magic) - magic;
}

// As a fixed-point number of 24 bits after the element's last one, plus 24 random bits, cut off. `y` is at most max.
MOESCOPE_INLINE Floats round_stochastic(const ElementRounding& f, Floats y, Words random) {
  const Ints exponent = larger((Ints)y & kInfinityBits, Ints{} + f.min_normal_bits);
  const Floats to_fixed = (Floats)((254 << 23) + ((f.mantissa_bits + 24) << 23) - exponent);
  const Floats step = (Floats)(exponent - (f.mantissa_bits << 23));
  const Ints fixed = __builtin_convertvector(y * to_fixed, Ints) + (Ints)(random >> 8);
  return __builtin_convertvector(fixed >> 24, Floats) * step;
}

// x / scale, rounded once, from the rounded reciprocal: several times faster than a division.
MOESCOPE_INLINE float quotient(float x, float scale, float reciprocal) {
  const float near = x * reciprocal;
  return __builtin_fmaf(__builtin_fmaf(-near, scale, x), reciprocal, near);
}
MOESCOPE_INLINE Floats quotient(Floats x, Floats scale, Floats reciprocal) {
  Floats q;
  for (int l = 0; l < kLanes<float>; ++l) q[l] = quotient(x[l], scale[l], reciprocal[l]);
  return q;
}

struct Quantized {
  Ints magnitude;       // bits of |x|
  Floats y;             // |x| in units of the element
  Floats r;             // y rounded
  Floats q;             // r in units of x
  Floats signed_value;  // what x decodes to
};

// `random` is used by stochastic ways alone. A decode of NaN makes everything NaN.
template <Way kWay>
MOESCOPE_INLINE Quantized quantize_lanes(const ElementRounding& f, Floats x, Floats encode, Floats decode,
                                         Words random) {
  Quantized v;
  v.magnitude = magnitude_bits(x);
  const Floats magnitude = (Floats)v.magnitude, max = Floats{} + f.max;
  v.y = divides(kWay) ? quotient(magnitude, decode, encode) : magnitude * encode;
  if constexpr (is_stochastic(kWay)) {
    v.r = round_stochastic(f, v.y < max ? v.y : max, random);
  } else {
    v.r = round_nearest(f, v.y);
    if constexpr (kWay != Way::nearest) v.r = v.r < max ? v.r : max;
  }
  v.q = v.r * decode;
  const Floats zero = (Floats)(Ints{} + (f.sign_bit ? ~kMagnitudeMask : 0));  // changes nothing but the -0 of INT8
  v.signed_value = (Floats)((Ints)v.q | ((Ints)x & ~kMagnitudeMask)) + zero;
  return v;
}

}  // namespace moescope
