#include "core/numerics/kernels/convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/numerics/kernels/convert.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "core/numerics/kernels/element_lanes.h"

HWY_BEFORE_NAMESPACE();
namespace moescope {
namespace HWY_NAMESPACE {
namespace {

// Sixteen at a time: counts of each lane's magnitudes that are not 0.
HWY_INLINE void count_nonzero(Floats magnitude, Words& counts) {
  counts += smaller(bits_as<std::uint32_t>(magnitude), splat(1u));
}

// How one batch is converted, and what it has added up to so far.
template <bool kStochastic>
struct Converter {
  ElementLanes element;
  Floats clip_limit, inverse_unit;
  const std::uint32_t* column_keys;
  Scaling::Ratio ratio;
  bool clips, to_bf16;
  Floats q2 = zero<float>(), err2 = zero<float>();
  Words nonzero = zero<std::uint32_t>(), nonzero_out = zero<std::uint32_t>();
  std::uint64_t clipped = 0;
  double unit;

  HWY_INLINE Converter(const Scaling& s, const Tile& t, const BlockBatch& b)
      : element(element_lanes(s.rounding)),
        clip_limit(splat(s.clip_limit)),
        column_keys(t.column_keys),
        ratio(s.ratio),
        clips(b.clipped > 0),
        to_bf16(t.bf16 != nullptr) {
    const std::int32_t exponent = std::clamp(b.top_code, 1, 253);
    inverse_unit = splat(std::bit_cast<float>((254 - exponent) << 23));
    unit = std::bit_cast<double>(static_cast<std::int64_t>(exponent - 127 + 1023) << 52);
  }

  // x, which begin in column `col`, as they are decoded by `out_decode`; `y2` gets their squares in units of the scale
  // added.
  HWY_INLINE Floats operator()(Floats x, Floats encode, Floats decode, Floats out_decode, RowKey row, std::size_t col,
                               Floats& y2) {
    const Floats magnitude = bits_as<float>(magnitude_bits(x));
    const Floats y = scaled(magnitude, encode, decode);
    Floats r;
    if constexpr (kStochastic)
      r = rounded_by_draw(element, y, draws_of(row, column_keys + col));
    else
      r = rounded_to_nearest(element, y);
    const Ints sign = bits_as<std::int32_t>(x) ^ bits_as<std::int32_t>(magnitude);
    const Floats value = exactly_fused(r, bits_as<float>(bits_as<std::int32_t>(decode) | sign), element.zero);

    const Floats q = value * inverse_unit, error = (x - value) * inverse_unit;
    y2 += y * y;
    q2 += q * q;
    err2 += error * error;
    count_nonzero(magnitude, nonzero);
    count_nonzero(r, nonzero_out);
    if (clips) clipped += count_greater(y, clip_limit);
    if (!to_bf16) return value;
    return exactly_fused(r, bits_as<float>(bits_as<std::int32_t>(out_decode) | sign), element.zero);
  }

  // Which of the four holds for a whole batch: no copies of the loop for each.
  HWY_INLINE Floats scaled(Floats magnitude, Floats encode, Floats decode) const {
    if (ratio == Scaling::Ratio::multiplied) return magnitude * encode;
    if (ratio == Scaling::Ratio::corrected) return quotient(magnitude, decode, encode);
    if (ratio == Scaling::Ratio::divided) return magnitude / decode;
    return saturated(element, bits_as<float>(magnitude_bits(magnitude * encode)));
  }

  HWY_INLINE BatchSums sums() const {
    const std::uint64_t values = sum_of(nonzero);
    return {unit, sum_of(q2), sum_of(err2), values, values - sum_of(nonzero_out), clipped};
  }
};

// What lies below a tile is mostly converted after it. Fetched meanwhile, its largest magnitudes need not wait for
// memory.
HWY_INLINE void fetch_below(const Tile& t, std::size_t row, std::size_t col) {
  hwy::Prefetch(t.x + (row + t.rows) * t.stride + col);
}

// Where a tile's converted values go: FP32, or BF16 that holds them without rounding.
HWY_INLINE void store_converted(const Tile& t, std::size_t at, Floats values, std::size_t count) {
  if (t.bf16)
    store_upper_halves(t.bf16 + at, values, count);
  else
    store_first(t.out + at, values, count);
}

template <bool kStochastic>
BatchSums rows(const Scaling& s, const Tile& tile, std::size_t width, BlockBatch& b) {
  const Tile t = tile;  // out of what stores may reach
  Converter<kStochastic> convert(s, t, b);
  const float* out_decode = (t.bf16 ? b.bf16_decode : b.decode).data();
  alignas(64) float squares[kSixteen * kSixteen];  // of sixteen blocks
  std::size_t block = 0;
  for (std::size_t r = 0; r < t.rows; ++r) {
    const RowKey key = kStochastic ? row_key_of(t, r) : RowKey{};
    const float* in = t.x + r * t.stride;
    for (std::size_t c = 0; c < t.cols; c += width, ++block) {
      const Floats encode = splat(b.encode[block]), decode = splat(b.decode[block]), to = splat(out_decode[block]);
      Floats y2 = zero<float>();
      const std::size_t end = std::min(c + width, t.cols);
      for (std::size_t i = c; i < end; i += kSixteen) {
        fetch_below(t, r, i);
        store_converted(t, r * t.out_stride + i, convert(load_first(in + i, end - i), encode, decode, to, key, i, y2),
                        end - i);
      }
      store(squares + block % kSixteen * kSixteen, y2);
      if (block % kSixteen == kSixteen - 1) store(b.x2.data() + (block + 1 - kSixteen), joined_rows(squares, Sum()));
    }
  }
  for (std::size_t k = block / kSixteen * kSixteen; k < block; ++k)
    b.x2[k] = sum_of(load(squares + k % kSixteen * kSixteen));
  return convert.sums();
}

// kStrips times sixteen columns side by side, of which the last may be fewer.
template <int kStrips>
HWY_INLINE void convert_strips(auto& convert, const Tile& t, std::size_t c, bool stochastic, BlockBatch& b) {
  const std::size_t lanes = std::min(kStrips * kSixteen, t.cols - c);
  Floats y2[kStrips];
  for (auto& each : y2) each = zero<float>();
  const float* out_decode = (t.bf16 ? b.bf16_decode : b.decode).data();
  for (std::size_t r = 0; r < t.rows; ++r) {
    const RowKey key = stochastic ? row_key_of(t, r) : RowKey{};
    for (std::size_t k = 0; k < kStrips; ++k) {
      const std::size_t col = c + k * kSixteen, count = lanes - k * kSixteen;
      fetch_below(t, r, col);
      const Floats x = load_first(t.x + r * t.stride + col, count);
      const Floats value =
          convert(x, load(b.encode.data() + col), load(b.decode.data() + col), load(out_decode + col), key, col, y2[k]);
      store_converted(t, r * t.out_stride + col, value, count);
    }
  }
  for (std::size_t k = 0; k < kStrips; ++k) {
    float* x2 = b.x2.data() + c + k * kSixteen;
    store(x2, load(x2) + y2[k]);
  }
}

template <bool kStochastic>
BatchSums columns(const Scaling& s, const Tile& tile, BlockBatch& b) {
  constexpr int kStrips = 4;
  const Tile t = tile;
  Converter<kStochastic> convert(s, t, b);
  std::size_t c = 0;
  for (; c + kStrips * kSixteen <= t.cols; c += kStrips * kSixteen)
    convert_strips<kStrips>(convert, t, c, kStochastic, b);
  for (; c < t.cols; c += kSixteen) convert_strips<1>(convert, t, c, kStochastic, b);
  return convert.sums();
}

BatchSums rows_of_format(const Scaling& s, const Tile& t, std::size_t width, BlockBatch& b) {
  return s.format.rounding == Rounding::stochastic ? rows<true>(s, t, width, b) : rows<false>(s, t, width, b);
}
BatchSums columns_of_format(const Scaling& s, const Tile& t, BlockBatch& b) {
  return s.format.rounding == Rounding::stochastic ? columns<true>(s, t, b) : columns<false>(s, t, b);
}

BlockSums sums_of_blocks(const BlockBatch& b, double unit) {
  const Floats none = zero<float>(), largest = splat(std::numeric_limits<float>::max());
  const Floats inverse_unit = splat(static_cast<float>(1 / unit));
  Floats x2 = none, crest = none;
  for (std::size_t i = 0; i < b.count; i += kSixteen) {
    const Floats own = load(b.x2.data() + i), scaled = load(b.scaled_amax.data() + i);
    const Ints amax = load(b.amax_bits.data() + i),
               scaling = bits_as<std::int32_t>(load(b.decode.data() + i) * inverse_unit);
    const Floats scale =
        bits_as<float>(if_equal(amax, splat(0), splat(0), scaling));  // of zeros it may be far too large
    x2 += own * scale * scale;
    crest += square_root(scaled * scaled * load(b.elements.data() + i) / if_less(none, own, own, largest));
  }
  return {sum_of(x2), sum_of(crest)};
}

// Without scales ----------------------------------------------------------------------------------------------------

enum class Unscaled : std::uint8_t { copied, bf16_nearest, bf16_stochastic };

// Infinity and NaN stay, NaN as a quiet one.
template <Unscaled kHow, bool kOrdinary>
HWY_INLINE Floats rounded_bf16(Floats x, RowKey row, const std::uint32_t* column_keys, std::size_t col) {
  const Words bits = bits_as<std::uint32_t>(x), kept = splat(0xFFFF0000u);
  Words up;
  if constexpr (kHow == Unscaled::bf16_stochastic)
    up = bits + shifted_right<16>(draws_of(row, column_keys + col));
  else
    up = bits + splat(0x7FFFu) + (shifted_right<16>(bits) & splat(1u));
  if constexpr (kOrdinary) return bits_as<float>(up & kept);
  const Ints magnitude = magnitude_bits(x), infinity = splat(0x7F800000);
  const Ints quiet_nan = bits_as<std::int32_t>((bits | splat(0x00400000u)) & kept);
  const Ints special = if_less(infinity, magnitude, quiet_nan, bits_as<std::int32_t>(bits));
  return bits_as<float>(if_less(magnitude, infinity, bits_as<std::int32_t>(up & kept), special));
}

// Infinities are left out.
std::int32_t top_of_finite(const Tile& t) {
  const Ints infinity = splat(0x7F800000), none = zero<std::int32_t>();
  Ints top = none;
  for (std::size_t r = 0; r < t.rows; ++r)
    for (std::size_t c = 0; c < t.cols; c += kSixteen) {
      const Ints bits = magnitude_bits(load_first(t.x + r * t.stride + c, t.cols - c));
      top = larger(top, if_less(bits, infinity, bits, none));
    }
  return max_of(top);
}

// Squares are added in units of 4^exponent, an exponent near that of the largest value.
struct SquareUnit {
  std::int32_t exponent;  // biased
  explicit SquareUnit(std::int32_t top_bits) : exponent(std::clamp(top_bits >> 23, 1, 253)) {}
  float inverse() const { return std::bit_cast<float>((254 - exponent) << 23); }
  double squared() const {
    const auto unit = std::bit_cast<double>(static_cast<std::int64_t>(exponent - 127 + 1023) << 52);
    return unit * unit;
  }
};

// What values and what became of them add up to, by lanes.
struct SquareSums {
  Floats x2 = zero<float>(), q2 = x2, err2 = x2;

  HWY_INLINE SquareSums() {}
  HWY_INLINE void add(Floats x, Floats q, Floats inverse_unit) {
    const Floats a = x * inverse_unit, b = q * inverse_unit, error = a - b;
    x2 += a * a;
    q2 += b * b;
    err2 += error * error;
  }
  void add_to(QuantSums& sums, double unit2) const {
    const double x = sum_of(x2), q = sum_of(q2), err = sum_of(err2);
    sums.x2 += x * unit2, sums.q2 += q * unit2, sums.err2 += err * unit2;
    sums.xq += (x + q - err) / 2 * unit2;  // x2 - 2 xq + q2 = err2
  }
};

// Squares, and counts.
template <Unscaled kHow>
struct UnscaledConverter {
  Floats inverse_unit;
  SquareSums squares;
  Words nonzero = zero<std::uint32_t>(), nonzero_out = nonzero;
  Ints overflowed = zero<std::int32_t>();
  Words least = splat(0x7F800000u);  // bits of the smallest magnitude but 0, less by one

  HWY_INLINE explicit UnscaledConverter(float inverse) : inverse_unit(splat(inverse)) {}

  HWY_INLINE Floats operator()(Floats x, RowKey row, const std::uint32_t* column_keys, std::size_t col) {
    Floats value = x;
    if constexpr (kHow != Unscaled::copied) value = rounded_bf16<kHow, false>(x, row, column_keys, col);
    Ints x_bits = magnitude_bits(x), q_bits = magnitude_bits(value);
    // Less by one, zero is the largest.
    least = smaller(least, bits_as<std::uint32_t>(q_bits) - splat(1u));
    count_nonzero(bits_as<float>(x_bits), nonzero);
    count_nonzero(bits_as<float>(q_bits), nonzero_out);
    // Sums leave out what is not finite, before or after.
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
  const Tile t = tile;  // out of what stores may reach
  const std::int32_t top_bits = top_of_finite(t);
  const SquareUnit unit(top_bits);
  UnscaledConverter<kHow> convert(unit.inverse());
  for (std::size_t r = 0; r < t.rows; ++r) {
    const RowKey key = row_key_of(t, r);
    for (std::size_t c = 0; c < t.cols; c += kSixteen) {
      const std::size_t count = t.cols - c;
      const Floats x = load_first(t.x + r * t.stride + c, count);
      store_converted(t, r * t.out_stride + c, convert(x, key, t.column_keys, c), count);
    }
  }
  if (t.bf16) *t.too_small |= min_of(convert.least) < 0x00800000u - 1;
  convert.squares.add_to(sums, unit.squared());
  const std::uint64_t values = sum_of(convert.nonzero);
  sums.elements += t.rows * t.cols;
  sums.nonzero += values;
  sums.underflow += values - sum_of(convert.nonzero_out);
  sums.clipped += static_cast<std::uint64_t>(sum_of(convert.overflowed));
  sums.amax = std::max(sums.amax, std::bit_cast<float>(top_bits));
}

// A tile of normal numbers, of which nothing is to be counted but squares, in one pass. False: it is none, or its first
// row tells too little of the others; what was written is of no use.
template <Unscaled kHow>
bool convert_ordinary(const Tile& tile, QuantSums& sums) {
  constexpr std::int32_t kLeastNormal = 0x00800000, kLargestBf16 = 0x7F7F0000, kMostApart = 30;
  const Tile t = tile;
  Ints first = zero<std::int32_t>();
  for (std::size_t c = 0; c < t.cols; c += kSixteen)
    first = larger(first, magnitude_bits(load_first(t.x + c, t.cols - c)));
  const SquareUnit unit(max_of(first));
  const Floats inverse_unit = splat(unit.inverse());
  SquareSums squares;
  Ints least = splat(0x7FFFFFFF), top = zero<std::int32_t>();
  for (std::size_t r = 0; r < t.rows; ++r) {
    const RowKey key = row_key_of(t, r);
    for (std::size_t c = 0; c < t.cols; c += kSixteen) {
      const std::size_t count = t.cols - c;
      fetch_below(t, r, c);
      const Floats x = load_first(t.x + r * t.stride + c, count);
      const Ints magnitude = magnitude_bits(x);
      least = smaller(least, magnitude), top = larger(top, magnitude);  // columns that are missing count as zeros
      const Floats value = kHow == Unscaled::copied ? x : rounded_bf16<kHow, true>(x, key, t.column_keys, c);
      store_converted(t, r * t.out_stride + c, value, count);
      squares.add(x, value, inverse_unit);
    }
  }
  const std::int32_t top_bits = max_of(top), apart = (top_bits >> 23) - unit.exponent;
  if (min_of(least) < kLeastNormal || top_bits > kLargestBf16 || apart > kMostApart) return false;
  squares.add_to(sums, unit.squared());
  sums.elements += t.rows * t.cols;
  sums.nonzero += t.rows * t.cols;
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

HWY_EXPORT(rows_of_format);
HWY_EXPORT(columns_of_format);
HWY_EXPORT(sums_of_blocks);
HWY_EXPORT(unscaled_of_format);

BatchSums convert_rows(const Scaling& scaling, const Tile& tile, std::size_t width, BlockBatch& batch) {
  return HWY_DYNAMIC_DISPATCH(rows_of_format)(scaling, tile, width, batch);
}

BatchSums convert_columns(const Scaling& scaling, const Tile& tile, BlockBatch& batch) {
  return HWY_DYNAMIC_DISPATCH(columns_of_format)(scaling, tile, batch);
}

BlockSums sum_blocks(const BlockBatch& batch, double unit) {
  return HWY_DYNAMIC_DISPATCH(sums_of_blocks)(batch, unit);
}

void convert_unscaled(const OperandFormat& format, const Tile& tile, QuantSums& sums) {
  HWY_DYNAMIC_DISPATCH(unscaled_of_format)(format, tile, sums);
}

}  // namespace moescope
#endif
