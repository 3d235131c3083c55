// Functions that conversions with and without scales share. lanes.h says how this file is included.
#if defined(MOESCOPE_CONVERTED_LANES_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MOESCOPE_CONVERTED_LANES_H
#undef MOESCOPE_CONVERTED_LANES_H
#else
#define MOESCOPE_CONVERTED_LANES_H
#endif

#include <hwy/cache_control.h>

#include <bit>
#include <cstdint>

#include "core/numerics/kernels/lanes.h"
#include "core/numerics/kernels/tile.h"

HWY_BEFORE_NAMESPACE();
namespace moescope {
namespace HWY_NAMESPACE {

// Returns 2^(exponent - 127); `exponent` is the exponent field of a float.
HWY_INLINE double power_of_two(std::int32_t exponent) {
  return std::bit_cast<double>(static_cast<std::int64_t>(exponent - 127 + 1023) << 52);
}

// Adds 1 to the count of each lane whose magnitude is not 0.
HWY_INLINE void count_nonzero(Floats magnitude, Words& counts) {
  counts += smaller(bits_as<std::uint32_t>(magnitude), splat(1u));
}

// Prefetches the values below a tile, which are mostly converted next, so that finding their largest magnitudes does
// not wait for memory.
HWY_INLINE void fetch_below(const Tile& t, Index row, Index col) {
  hwy::Prefetch(t.in.data + (row + t.in.rows) * t.in.stride + col);
}

// Stores converted values of a tile: as BF16, which holds them without rounding, if the tile has a BF16 output; else as
// FP32.
HWY_INLINE void store_converted(const Tile& t, Index at, Floats values, Index count) {
  if (t.bf16.data)
    store_upper_halves(t.bf16.data + at, values, count);
  else
    store_first(t.out.data + at, values, count);
}
// Stores thirty-two values, all of which are in the tile.
HWY_INLINE void store_converted(const Tile& t, Index at, Floats values, Floats next) {
  if (t.bf16.data) return store_upper_halves(t.bf16.data + at, values, next);
  store(t.out.data + at, values);
  store(t.out.data + at + kSixteen, next);
}

}  // namespace HWY_NAMESPACE
}  // namespace moescope
HWY_AFTER_NAMESPACE();

#endif
