// Quantizing sixteen values at once: what every scheme does to a value once its scale is known.
#pragma once

#include <cstdint>

#include "core/numerics/kernels/counter_bits.h"
#include "core/numerics/kernels/float_rounding.h"
#include "core/numerics/kernels/lanes.h"

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
MOESCOPE_INLINE Floats splat(float v) {
  return Floats{} + v;
}
// Read as bits, which the compiler makes one operation of.
MOESCOPE_INLINE Floats splat_at(const float* p) {
  std::int32_t bits;
  std::memcpy(&bits, p, sizeof(bits));
  return (Floats)(Ints{} + bits);
}
MOESCOPE_INLINE Floats square_root(Floats v) {
  for (int l = 0; l < kLanes<float>; ++l) v[l] = __builtin_sqrtf(v[l]);
  return v;
}
// Of magnitudes; NaN is above all. As integers any arithmetic unit compares them.
MOESCOPE_INLINE Floats smaller(Floats a, Floats b) {
  return (Floats)((Ints)a < (Ints)b ? (Ints)a : (Ints)b);
}

// Adds 1 to the counts of the lanes in which `bits` is not 0.
MOESCOPE_INLINE Words counted(Words counts, Ints bits) {
  const Words words = (Words)bits, one = Words{} + 1;
  return counts + (words > one ? one : words);
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

// An element's rounding over lanes. A value with exponent e is rounded by adding 1.5 * 2^(e + 23 - m) and taking it
// away again (float_rounding.h), which is a power of two times a constant: two fused operations, the products being
// exact. The half more keeps the sum of a slightly negative value in the same binade.
struct LaneRounding {
  Ints min_normal;    // bits
  Floats to_last;     // 1.5 * 2^(23 - m)
  Ints to_draw_unit;  // exponents between 2^e and 2^-32 of the distance between neighbours, as bits
  Floats max;
  Floats zero;  // -0, which adds nothing; 0 for INT8, which has no -0
};

MOESCOPE_INLINE LaneRounding lane_rounding(const ElementRounding& f) {
  const std::int32_t zero = f.sign_bit ? ~kMagnitudeMask : 0;
  return {Ints{} + f.min_normal_bits, splat(1.5f * static_cast<float>(1 << (23 - f.mantissa_bits))),
          Ints{} + ((f.mantissa_bits + 32) << 23), splat(f.max), (Floats)(Ints{} + zero)};
}

// To a multiple of 2^-m times `exponent`, a power of two.
MOESCOPE_INLINE Floats rounded_at(const LaneRounding& f, Floats y, Floats exponent) {
  const Floats shifted = y + exponent * f.to_last;
  return shifted - exponent * f.to_last;
}

// `y`: magnitudes in units of the element, at most 2 * max.
MOESCOPE_INLINE Floats round_nearest(const LaneRounding& f, Floats y) {
  return rounded_at(f, y, (Floats)larger((Ints)y & kInfinityBits, f.min_normal));
}

// Moved by the draw, by less than half the distance to a neighbour; the other way if the exponent has a sign.
MOESCOPE_INLINE Floats moved_by(const LaneRounding& f, Floats y, Ints exponent, Words draw) {
  const Ints shift = (Ints)((draw & 0xFFFF0000) | 0x8000);  // in units of 2^-32: 16 bits and a half
  return y + __builtin_convertvector(shift, Floats) * (Floats)(exponent - f.to_draw_unit);
}
// `y` is at most max.
MOESCOPE_INLINE Floats round_stochastic(const LaneRounding& f, Floats y, Words draw) {
  const Ints exponent = larger((Ints)y & kInfinityBits, f.min_normal);
  return rounded_at(f, moved_by(f, y, exponent, draw), (Floats)exponent);
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
  Ints magnitude;  // bits of |x|
  Floats y;        // |x| in units of the element
  Floats r;        // y rounded
  Floats value;    // what x decodes to
};

// `draw` is used by stochastic ways alone.
template <Way kWay>
MOESCOPE_INLINE Floats rounded(const LaneRounding& f, Floats y, Words draw) {
  if constexpr (is_stochastic(kWay)) return round_stochastic(f, smaller(y, f.max), draw);
  const Floats r = round_nearest(f, y);
  return kWay == Way::nearest ? r : smaller(r, f.max);
}

// With the sign of x. A decode of NaN makes everything NaN.
MOESCOPE_INLINE Floats decoded(const LaneRounding& f, Floats r, Floats decode, Floats x) {
  const Floats signed_decode = (Floats)((Ints)decode | ((Ints)x & ~kMagnitudeMask));
  return r * signed_decode + f.zero;
}

template <Way kWay>
MOESCOPE_INLINE Quantized quantize_lanes(const LaneRounding& f, Floats x, Floats encode, Floats decode, Words draw) {
  Quantized v;
  v.magnitude = magnitude_bits(x);
  const Floats magnitude = (Floats)v.magnitude;
  v.y = divides(kWay) ? quotient(magnitude, decode, encode) : magnitude * encode;
  v.r = rounded<kWay>(f, v.y, draw);
  v.value = decoded(f, v.r, decode, x);
  return v;
}

}  // namespace moescope
