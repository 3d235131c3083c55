// Operations for which AVX-512 has an instruction, and other processors several. `kWide`: inside a function marked
// MOESCOPE_SIMD_LINES, that is, where AVX-512 is known to be there. The results are the same.
#pragma once

#include <bit>
#include <cstdint>

#include "core/numerics/kernels/element_lanes.h"
#include "core/numerics/kernels/simd.h"

namespace moescope {

#ifdef MOESCOPE_LINES
// Controls of the instructions, as their manual numbers them.
inline constexpr int kSmallestAbsolute = 0b1010, kLargestAbsolute = 0b1011;  // without a sign
inline constexpr int kSmallestWithSign = 0b0010, kLargestWithSign = 0b0011;  // by magnitude, with the first one's sign
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

// Counts the values of four vectors that are above a limit, not those of four others, or not +0. Adding to a vector
// under a mask would take the unit that multiplies (Zen 4); masks are counted elsewhere.
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
  MOESCOPE_INLINE void add_unequal(const Floats (&a)[4], const Floats (&b)[4]) {
#ifdef MOESCOPE_LINES
    if constexpr (kWide)
      return add_masks([&](int k) __attribute__((always_inline)) { return mask<kUnequal>(a[k], b[k]); });
#endif
    for (int k = 0; k < 4; ++k) lanes_ -= (Words)(a[k] != b[k]);
  }
  MOESCOPE_INLINE void add_nonzero(const Floats (&v)[4]) {
#ifdef MOESCOPE_LINES
    if constexpr (kWide) return add_mask(nonzero_mask(v));
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
  // Narrowed to bytes with saturation, which keeps what is not +0: one mask instead of four.
  static MOESCOPE_INLINE std::uint64_t nonzero_mask(const Floats (&v)[4]) {
    const auto words = [](Floats a, Floats b) __attribute__((always_inline)) {
      return __builtin_ia32_packssdw512_mask((Ints)a, (Ints)b, Lanes<short>{}, kAllLanes);
    };
    const auto bytes = __builtin_ia32_packsswb512_mask(words(v[0], v[1]), words(v[2], v[3]), Lanes<char>{}, kAllLanes);
    return __builtin_ia32_ptestmb512(bytes, bytes, kAllLanes);
  }
  MOESCOPE_INLINE void add_mask(std::uint64_t all) {
    count_ += static_cast<std::uint64_t>(std::popcount(all));
  }
  MOESCOPE_INLINE void add_masks(const auto& mask_of) {
    add_mask(mask_of(0) | mask_of(1) << 16 | mask_of(2) << 32 | mask_of(3) << 48);
  }
#endif
  std::uint64_t count_ = 0;
  Words lanes_{};
};

}  // namespace moescope
