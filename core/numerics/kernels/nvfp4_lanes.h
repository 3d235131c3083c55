// Quantizing NVFP4 values four vectors at a time, with what they add up to.
#pragma once

#include "core/numerics/kernels/lane_sums.h"
#include "core/numerics/kernels/wide_lanes.h"

namespace moescope {

template <bool kWide>
struct FourSums {
  Floats q2{}, err2{};
  Floats least = splat(1.0f);  // of the magnitudes: values of 0 are rare, and counted where there are some
  Tally<kWide> clipped, nonzero_out;

  MOESCOPE_INLINE bool has_zero() const {
    return max_of<std::int32_t>(kMagnitudeMask - magnitude_bits(least)) == kMagnitudeMask;
  }
};

// A block's scale comes out a sixteenth too small at most, unless it is held under the largest there is: then values
// exceed 6, but not 7, from where on they would be rounded to what E2M1 has not.
MOESCOPE_INLINE bool amax_fits(const Scaling& s, std::int32_t amax_bits) {
  return std::bit_cast<float>(amax_bits) <= s.tensor_scale * (448.0f * 6.0f * 1.01f);
}

// Minus what is nearest to y, of 7 at most; 0 is +0.
MOESCOPE_INLINE Floats minus_nearest(const LaneRounding& f, Floats y, Floats exponent) {
  const Floats shifted = y + exponent * f.to_last;
  return exponent * f.to_last - shifted;
}

// The smaller magnitude, with y's sign.
template <bool kWide>
MOESCOPE_INLINE Floats held_under(Floats most, Floats y) {
#ifdef MOESCOPE_LINES
  if constexpr (kWide) return selected<kSmallestWithSign>(y, most);
#endif
  return (Floats)((Ints)smaller((Floats)magnitude_bits(y), most) | ((Ints)y & ~kMagnitudeMask));
}

// `y`: held under the largest element.
template <bool kWide>
MOESCOPE_INLINE Floats minus_drawn(const LaneRounding& f, Floats y, Words draw) {
#ifdef MOESCOPE_LINES
  if constexpr (kWide) {  // exponents with y's sign, which the draw then has, too
    const Floats signed_exponent = (Floats)((Ints)y & (kInfinityBits | ~kMagnitudeMask));
    const Floats exponent = selected<kLargestWithSign>(signed_exponent, (Floats)f.min_normal);
    return minus_nearest(f, moved_by(f, y, (Ints)exponent, draw), exponent);
  }
#endif
  const Floats r = round_stochastic(f, (Floats)magnitude_bits(y), draw);
  return Floats{} - (Floats)((Ints)r | ((Ints)y & ~kMagnitudeMask));  // not -0
}

// Neighbours of a row, written to `out`, taken through each step together: one vector alone would mostly wait for
// itself. `y` gets them in units of their scales; `clip_limit2` is the square of what is not clipped.
#define EACH _Pragma("GCC unroll 4") for (std::size_t k = 0; k < 4; ++k)
template <Way kWay, bool kWide>
MOESCOPE_INLINE void quantize_four(const LaneRounding& f, Floats clip_limit2, const Floats (&x)[4],
                                   const Floats (&encode)[4], const Floats (&decode)[4], RowKey key,
                                   const std::uint32_t* column_keys, const Target& target, float* out, Floats (&y)[4],
                                   FourSums<kWide>& sums) {
  constexpr std::size_t kWidth = kLanes<float>;
  Floats minus_r[4], v[4];
  EACH y[k] = quotient_lanes<kWide>(x[k], decode[k], encode[k]);
  if constexpr (is_stochastic(kWay)) {
    Floats held[4];
    EACH held[k] = held_under<kWide>(f.max, y[k]);
    sums.clipped.add_unequal(held, y);
    EACH minus_r[k] = minus_drawn<kWide>(f, held[k], draws_of<kWay>(key, column_keys + k * kWidth));
  } else {
    Floats y2[4];
    EACH y2[k] = y[k] * y[k];
    EACH minus_r[k] = minus_nearest(f, y[k], (Floats)larger((Ints)y[k] & kInfinityBits, f.min_normal));
    sums.clipped.add_above(y2, clip_limit2);
  }
  EACH {
    v[k] = (Floats)((Ints)x[k] & ~kMagnitudeMask) - minus_r[k] * decode[k];  // -0 - +0 is -0: a zero keeps its sign
    write_vector<kWide>(target, out + k * kWidth, v[k], kWidth);
  }
  EACH {
    const Floats error = x[k] - v[k];
    sums.q2 += v[k] * v[k];
    sums.err2 += error * error;
    sums.least = smaller_magnitude<kWide>(sums.least, x[k]);
  }
  sums.nonzero_out.add_nonzero(minus_r);
}
#undef EACH

}  // namespace moescope
