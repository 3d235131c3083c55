#include "core/numerics/kernels/convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/numerics/kernels/convert_unscaled.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <bit>

#include "core/numerics/kernels/converted_lanes.h"
#include "core/numerics/kernels/element_lanes.h"

HWY_BEFORE_NAMESPACE();
namespace moescope {
namespace HWY_NAMESPACE {
namespace {

enum class Unscaled : std::uint8_t { copied, bf16_nearest, bf16_stochastic };

// Rounds to BF16. Infinity is kept; a NaN becomes a quiet NaN. With kOrdinary all values must be finite.
template <Unscaled kHow, bool kOrdinary>
HWY_INLINE Floats rounded_bf16(Floats x, RowKey row, const std::uint32_t* column_keys, Index col) {
  const Words bits = bits_as<std::uint32_t>(x), upper_bits = splat(0xFFFF0000u);
  Words up;
  if constexpr (kHow == Unscaled::bf16_stochastic)
    up = bits + shifted_right<16>(draws_of(row, column_keys + col));
  else
    up = bits + splat(0x7FFFu) + (shifted_right<16>(bits) & splat(1u));
  if constexpr (kOrdinary) return bits_as<float>(up & upper_bits);
  const Ints magnitude = magnitude_bits(x), infinity = splat(0x7F800000);
  const Ints quiet_nan = bits_as<std::int32_t>((bits | splat(0x00400000u)) & upper_bits);
  const Ints special = if_less(infinity, magnitude, quiet_nan, bits_as<std::int32_t>(bits));
  return bits_as<float>(if_less(magnitude, infinity, bits_as<std::int32_t>(up & upper_bits), special));
}

// Returns the largest finite magnitude.
std::int32_t top_of_finite(const Tile& t) {
  const Ints infinity = splat(0x7F800000), none = zero<std::int32_t>();
  Ints top = none;
  for (Index r = 0; r < t.in.rows; ++r)
    for (Index c = 0; c < t.in.cols; c += kSixteen) {
      const Ints bits = magnitude_bits(load_first(t.in.row(r) + c, t.in.cols - c));
      top = larger(top, if_less(bits, infinity, bits, none));
    }
  return max_of(top);
}

// The unit in which squares are added: the square of a power of two near the largest value.
struct SquareUnit {
  std::int32_t exponent;  // biased
  explicit SquareUnit(std::int32_t top_bits) : exponent(std::clamp(top_bits >> 23, 1, 253)) {}
  float inverse() const { return std::bit_cast<float>((254 - exponent) << 23); }
  double squared() const {
    const double unit = power_of_two(exponent);
    return unit * unit;
  }
};

// Sums of the squares of values, results and errors, by lanes.
struct SquareSums {
  Floats x2 = zero<float>(), q2 = x2, err2 = x2;

  HWY_INLINE SquareSums() {}
  HWY_INLINE void add(Floats x, Floats q, Floats inverse_unit) {
    const Floats a = x * inverse_unit, b = q * inverse_unit, error = a - b;
    x2 = fused(a, a, x2);
    q2 = fused(b, b, q2);
    err2 = fused(error, error, err2);
  }
  void add_to(QuantSums& sums, double unit2) const {
    const double x = sum_of(x2), q = sum_of(q2), err = sum_of(err2);
    sums.x2 += x * unit2;
    sums.q2 += q * unit2;
    sums.err2 += err * unit2;
    sums.xq += (x + q - err) / 2 * unit2;  // x2 - 2 xq + q2 = err2
  }
};

// Converts sixteen values and adds up squares and counts.
template <Unscaled kHow>
struct UnscaledConverter {
  Floats inverse_unit;
  SquareSums squares;
  Words nonzero = zero<std::uint32_t>(), nonzero_out = nonzero;
  Ints overflowed = zero<std::int32_t>();
  Words smallest_magnitude = splat(0x7F800000u);  // bits of the smallest magnitude other than 0, minus one

  HWY_INLINE explicit UnscaledConverter(float inverse) : inverse_unit(splat(inverse)) {}

  HWY_INLINE Floats operator()(Floats x, RowKey row, const std::uint32_t* column_keys, Index col) {
    Floats value = x;
    if constexpr (kHow != Unscaled::copied) value = rounded_bf16<kHow, false>(x, row, column_keys, col);
    Ints x_bits = magnitude_bits(x), q_bits = magnitude_bits(value);
    // Subtracting one makes zero the largest.
    smallest_magnitude = smaller(smallest_magnitude, bits_as<std::uint32_t>(q_bits) - splat(1u));
    count_nonzero(bits_as<float>(x_bits), nonzero);
    count_nonzero(bits_as<float>(q_bits), nonzero_out);
    // Sums leave out elements that are not finite before or after rounding.
    const Ints infinity = splat(0x7F800000), none = zero<std::int32_t>();
    overflowed += if_less(x_bits, infinity, if_less(q_bits, infinity, none, splat(1)), none);
    x_bits = if_less(q_bits, infinity, x_bits, none);
    q_bits = if_less(q_bits, infinity, q_bits, none);
    squares.add(bits_as<float>(x_bits), bits_as<float>(q_bits), inverse_unit);
    return value;
  }
};

template <Unscaled kHow>
void convert_any(const Tile& tile, QuantSums& sums) {
  const Tile t = tile;  // a copy that stores cannot alias
  const std::int32_t top_bits = top_of_finite(t);
  const SquareUnit unit(top_bits);
  UnscaledConverter<kHow> convert(unit.inverse());
  for (Index r = 0; r < t.in.rows; ++r) {
    const RowKey key = row_key_of(t, r);
    for (Index c = 0; c < t.in.cols; c += kSixteen) {
      const Index count = t.in.cols - c;
      const Floats x = load_first(t.in.row(r) + c, count);
      store_converted(t, r * t.out_stride() + c, convert(x, key, t.column_keys, c), count);
    }
  }
  if (t.bf16.data) *t.too_small |= min_of(convert.smallest_magnitude) < 0x00800000u - 1;
  convert.squares.add_to(sums, unit.squared());
  const std::uint64_t values = sum_of(convert.nonzero);
  sums.elements += t.in.size();
  sums.nonzero += values;
  sums.underflow += values - sum_of(convert.nonzero_out);
  sums.clipped += static_cast<std::uint64_t>(sum_of(convert.overflowed));
  sums.amax = std::max(sums.amax, std::bit_cast<float>(top_bits));
}

// Rounds normal numbers whose exponents are far from both ends of the range. Adding and subtracting 1.5 * 2^16 times
// the number's power of two leaves BF16's bits.
template <Unscaled kHow>
HWY_INLINE Floats rounded_ordinary(Floats x, RowKey row, const std::uint32_t* column_keys, Index col) {
  if constexpr (kHow == Unscaled::copied) return x;
  if constexpr (kHow == Unscaled::bf16_stochastic) return rounded_bf16<kHow, true>(x, row, column_keys, col);
  const Floats power = bits_as<float>(bits_as<std::int32_t>(x) & splat(0x7F800000)), to_last = splat(0x1.8p16f);
  return exactly_fused_minus(power, to_last, exactly_fused(power, to_last, x));
}

// Converts a tile in one pass if it has no zeros and if float32 holds its squares without scaling, as in nearly all
// tiles. Returns false for other tiles; the output is then unspecified.
template <Unscaled kHow>
bool convert_ordinary(const Tile& tile, QuantSums& sums) {
  constexpr std::int32_t kMinMagnitudeBits = (127 - 60) << 23, kMinTopBits = (127 - 48) << 23,
                         kMaxTopBits = (127 + 50) << 23;
  const Tile t = tile;
  SquareSums squares;
  Ints smallest_magnitude = splat(0x7FFFFFFF), top = zero<std::int32_t>();
  const auto converted = [&](Floats x, RowKey key, Index c) HWY_ATTR {
    const Ints magnitude = magnitude_bits(x);
    smallest_magnitude = smaller(smallest_magnitude, magnitude);
    top = larger(top, magnitude);  // missing columns count as zeros
    const Floats value = rounded_ordinary<kHow>(x, key, t.column_keys, c);
    squares.x2 = fused(x, x, squares.x2);
    if constexpr (kHow == Unscaled::copied) return value;
    const Floats error = x - value;
    squares.q2 = exactly_fused(value, value, squares.q2);
    squares.err2 = fused(error, error, squares.err2);
    return value;
  };
  for (Index r = 0; r < t.in.rows; ++r) {
    const RowKey key = row_key_of(t, r);
    const float* in = t.in.row(r);
    const Index to = r * t.out_stride();
    Index c = 0;
    for (; c + 2 * kSixteen <= t.in.cols; c += 2 * kSixteen) {
      fetch_below(t, r, c);
      fetch_below(t, r, c + kSixteen);
      const Floats values = converted(load(in + c), key, c);
      store_converted(t, to + c, values, converted(load(in + c + kSixteen), key, c + kSixteen));
    }
    for (; c < t.in.cols; c += kSixteen)
      store_converted(t, to + c, converted(load_first(in + c, t.in.cols - c), key, c), t.in.cols - c);
  }
  const std::int32_t top_bits = max_of(top);
  if (min_of(smallest_magnitude) < kMinMagnitudeBits || top_bits < kMinTopBits || top_bits > kMaxTopBits) return false;
  if (kHow == Unscaled::copied) squares.q2 = squares.x2;
  squares.add_to(sums, 1);
  sums.elements += t.in.size();
  sums.nonzero += t.in.size();
  sums.amax = std::max(sums.amax, std::bit_cast<float>(top_bits));
  return true;
}

template <Unscaled kHow>
void unscaled(const Tile& t, QuantSums& sums) {
  if (!convert_ordinary<kHow>(t, sums)) convert_any<kHow>(t, sums);
}

void unscaled_of_format(const OperandFormat& format, const Tile& t, QuantSums& sums) {
  if (format.scheme == QuantScheme::fp32) return unscaled<Unscaled::copied>(t, sums);
  if (format.rounding == Rounding::stochastic) return unscaled<Unscaled::bf16_stochastic>(t, sums);
  unscaled<Unscaled::bf16_nearest>(t, sums);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace moescope
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moescope {

HWY_EXPORT(unscaled_of_format);

void convert_unscaled(const OperandFormat& format, const Tile& tile, QuantSums& sums) {
  HWY_DYNAMIC_DISPATCH(unscaled_of_format)(format, tile, sums);
}

}  // namespace moescope
#endif
