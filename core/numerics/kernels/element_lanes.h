// Rounds sixteen scaled values to an element format, to nearest or stochastically. lanes.h says how this file is
// included.
#if defined(MOESCOPE_ELEMENT_LANES_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MOESCOPE_ELEMENT_LANES_H
#undef MOESCOPE_ELEMENT_LANES_H
#else
#define MOESCOPE_ELEMENT_LANES_H
#endif

#include "core/numerics/kernels/float_rounding.h"
#include "core/numerics/kernels/lanes.h"
#include "core/numerics/kernels/tile.h"
#include "core/numerics/rng.h"

HWY_BEFORE_NAMESPACE();
namespace moescope {
namespace HWY_NAMESPACE {

// A value with exponent e is rounded by adding and subtracting 1.5 * 2^(e + 23 - m) (float_rounding.h), a power of two
// times a constant. The factor 1.5 keeps the sum for a value just below a power of two in its binade.
struct ElementLanes {
  Ints min_normal;    // bits
  Floats to_last;     // 1.5 * 2^(23 - m)
  Ints to_draw_unit;  // exponent of 2^e minus that of 2^-32 of the distance between neighbours, as bits
  Ints max;           // bits
  Floats zero;        // -0, which adds nothing; 0 for INT8, which has no -0
};

HWY_INLINE ElementLanes element_lanes(const ElementRounding& f) {
  return {splat(f.min_normal_bits), splat(1.5f * (1 << (23 - f.mantissa_bits))), splat((f.mantissa_bits + 32) << 23),
          splat(std::bit_cast<std::int32_t>(f.max)), splat(f.sign_bit ? -0.0f : 0.0f)};
}

// Limits values to the largest element. Compares bits, so that a NaN becomes the largest element as well.
HWY_INLINE Floats saturated(const ElementLanes& f, Floats y) {
  return bits_as<float>(smaller(bits_as<std::int32_t>(y), f.max));
}

// Returns the exponents of magnitudes as bits, at least those of the smallest normal number.
HWY_INLINE Ints exponent_bits(const ElementLanes& f, Floats y) {
  return larger(bits_as<std::int32_t>(y) & splat(0x7F800000), f.min_normal);
}

HWY_INLINE Floats rounded_at(const ElementLanes& f, Floats y, Ints exponent) {
  const Floats power = bits_as<float>(exponent), moved = exactly_fused(power, f.to_last, y);
  return exactly_fused_minus(power, f.to_last, moved);
}

// Returns the element nearest to each magnitude, ties to even.
HWY_INLINE Floats rounded_to_nearest(const ElementLanes& f, Floats y) {
  return saturated(f, rounded_at(f, y, exponent_bits(f, y)));
}

// Moves each magnitude by its draw, by less than half the distance to a neighbour, and rounds it to the nearest
// element.
HWY_INLINE Floats rounded_by_draw(const ElementLanes& f, Floats y, Words draw) {
  const Floats held = saturated(f, y);
  const Ints exponent = exponent_bits(f, held);
  const Words shift = (draw & splat(0xFFFF0000u)) | splat(0x8000u);  // signed, in units of 2^-32: 16 bits and a half
  const Floats moved =
      exactly_fused(to_floats(bits_as<std::int32_t>(shift)), bits_as<float>(exponent - f.to_draw_unit), held);
  return rounded_at(f, moved, exponent);
}

HWY_INLINE RowKey row_key_of(const Tile& t, Index row) {
  return row_key(t.key.seed, t.key.stream, t.key.first_row + row);
}
// Returns draws for sixteen neighbouring values of a row, in the upper 16 bits.
HWY_INLINE Words draws_of(RowKey row, const std::uint32_t* column_keys) {
  return (load(column_keys) ^ splat(row.mask)) * splat(row.factor);
}

}  // namespace HWY_NAMESPACE
}  // namespace moescope
HWY_AFTER_NAMESPACE();

#endif
