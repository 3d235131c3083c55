// Quantizing NVFP4 values four vectors at a time, with what they add up to.
#pragma once

#include "core/numerics/lane_sums.h"
#include "core/numerics/wide_lanes.h"

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

// With the sign of y, or none if drawn; nearest to 6 at most if the amax fits.
template <Way kWay>
MOESCOPE_INLINE Floats rounded_e2m1(const LaneRounding& f, Floats y, RowKey key, const std::uint32_t* column_keys) {
  if constexpr (is_stochastic(kWay))
    return rounded<kWay>(f, (Floats)magnitude_bits(y), draws_of<kWay>(key, column_keys));
  else
    return round_nearest(f, y);
}

// Neighbours of a row, written to `out`, taken through each step together: one vector alone would mostly wait for
// itself. `x2` gets their squares in units of their scales; `clip_limit2` is the square of what is not clipped.
#define EACH _Pragma("GCC unroll 4") for (std::size_t k = 0; k < 4; ++k)
template <Way kWay, bool kWide>
MOESCOPE_INLINE void quantize_four(const LaneRounding& f, Floats clip_limit2, const Floats (&x)[4],
                                   const Floats (&encode)[4], const Floats (&decode)[4], RowKey key,
                                   const std::uint32_t* column_keys, const Target& target, float* out, Floats (&x2)[4],
                                   FourSums<kWide>& sums) {
  constexpr std::size_t kWidth = kLanes<float>;
  Floats y[4], r[4], v[4];
  EACH y[k] = quotient_lanes<kWide>(x[k], decode[k], encode[k]);
  EACH r[k] = rounded_e2m1<kWay>(f, y[k], key, column_keys + k * kWidth);
  EACH {
    v[k] = (Floats)((Ints)(r[k] * decode[k]) | ((Ints)x[k] & ~kMagnitudeMask));  // the sign of a zero, too
    write_vector<kWide>(target, out + k * kWidth, v[k], kWidth);
  }
  EACH {
    const Floats error = x[k] - v[k];
    x2[k] = y[k] * y[k];
    sums.q2 += v[k] * v[k];
    sums.err2 += error * error;
    sums.least = smaller_magnitude<kWide>(sums.least, x[k]);
  }
  sums.clipped.add_above(x2, clip_limit2);
  sums.nonzero_out.add_nonzero(r);
}
#undef EACH

}  // namespace moescope
