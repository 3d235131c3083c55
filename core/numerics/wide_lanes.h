// Operations for which AVX-512 has an instruction, and other processors several. `kWide`: inside a function marked
// MOESCOPE_SIMD_LINES, that is, where AVX-512 is known to be there. The results are the same.
#pragma once

#include <bit>
#include <cstdint>

#include "core/numerics/element_lanes.h"
#include "core/numerics/simd.h"

namespace moescope {

#ifdef MOESCOPE_LINES
// Controls of the instructions, as their manual numbers them.
inline constexpr int kSmallestAbsolute = 0b1010, kLargestAbsolute = 0b1011;  // without a sign
inline constexpr int kAbove = 30, kUnequal = 4;                              // of comparisons
inline constexpr int kAllLanes = -1, kCurrentRounding = 4;

template <int kControl>
MOESCOPE_INLINE Floats selected(Floats a, Floats b) {
  return __builtin_ia32_rangeps512_mask(a, b, kControl, a, kAllLanes, kCurrentRounding);
}
MOESCOPE_INLINE Floats fused(Floats a, Floats b, Floats c) {
  return __builtin_ia32_vfmaddps512_mask(a, b, c, kAllLanes, kCurrentRounding);
}
#endif

// The larger magnitude of two values, the smaller one. Of NaN and a number it may be either: whoever needs to know of a
// NaN learns it from a sum.
template <bool kWide>
MOESCOPE_INLINE Floats larger_magnitude(Floats a, Floats b) {
#ifdef MOESCOPE_LINES
  if constexpr (kWide) return selected<kLargestAbsolute>(a, b);
#endif
  return (Floats)larger(magnitude_bits(a), magnitude_bits(b));
}
template <bool kWide>
MOESCOPE_INLINE Floats smaller_magnitude(Floats a, Floats b) {
#ifdef MOESCOPE_LINES
  if constexpr (kWide) return selected<kSmallestAbsolute>(a, b);
#endif
  return smaller((Floats)magnitude_bits(a), (Floats)magnitude_bits(b));
}

// x / scale, as quotient of element_lanes.h, of which the compiler makes vectors in simple loops alone.
template <bool kWide>
MOESCOPE_INLINE Floats quotient_lanes(Floats x, Floats scale, Floats reciprocal) {
#ifdef MOESCOPE_LINES
  if constexpr (kWide) {
    const Floats near = x * reciprocal;
    return fused(fused(-near, scale, x), reciprocal, near);
  }
#endif
  return quotient(x, scale, reciprocal);
}

// Counts the values of four vectors that are above a limit, or not 0. Adding to a vector under a mask would take the
// unit that multiplies (Zen 4); masks are counted elsewhere.
template <bool kWide>
class Tally {
 public:
  MOESCOPE_INLINE void add_above(const Floats (&v)[4], Floats limit) {
#ifdef MOESCOPE_LINES
    if constexpr (kWide)
      return add_masks([&](int k) __attribute__((always_inline)) { return mask<kAbove>(v[k], limit); });
#endif
    for (const Floats& x : v) lanes_ -= (Words)(x > limit);
  }
  MOESCOPE_INLINE void add_nonzero(const Floats (&v)[4]) {
#ifdef MOESCOPE_LINES
    if constexpr (kWide)
      return add_masks([&](int k) __attribute__((always_inline)) { return mask<kUnequal>(v[k], Floats{}); });
#endif
    for (const Floats& x : v) lanes_ -= (Words)(x != 0);
  }
  MOESCOPE_INLINE std::uint64_t count() const {
    return count_ + sum_of<std::uint32_t>(lanes_);
  }

 private:
#ifdef MOESCOPE_LINES
  template <int kPredicate>
  static MOESCOPE_INLINE std::uint64_t mask(Floats a, Floats b) {
    return static_cast<std::uint16_t>(__builtin_ia32_cmpps512_mask(a, b, kPredicate, kAllLanes, kCurrentRounding));
  }
  MOESCOPE_INLINE void add_masks(const auto& mask_of) {
    const std::uint64_t all = mask_of(0) | mask_of(1) << 16 | mask_of(2) << 32 | mask_of(3) << 48;
    count_ += static_cast<std::uint64_t>(std::popcount(all));
  }
#endif
  std::uint64_t count_ = 0;
  Words lanes_{};
};

}  // namespace moescope
