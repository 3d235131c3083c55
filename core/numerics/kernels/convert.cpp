#include "core/numerics/kernels/convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/numerics/kernels/convert.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>

#include "core/numerics/kernels/converted_lanes.h"
#include "core/numerics/kernels/element_lanes.h"

HWY_BEFORE_NAMESPACE();
namespace moescope {
namespace HWY_NAMESPACE {
namespace {

// Returns a power of two near the largest scale of a batch; squares are added in units of its square.
HWY_INLINE double unit_of(const BlockBatch& b) {
  return power_of_two(std::clamp(b.top_code, 1, 253));
}

// Returns the number of values that are not 0.
std::uint64_t nonzero_of(const Tile& t) {
  Words counts = zero<std::uint32_t>();
  for (Index r = 0; r < t.in.rows; ++r)
    for (Index c = 0; c < t.in.cols; c += kSixteen)
      count_nonzero(bits_as<float>(magnitude_bits(load_first(t.in.row(r) + c, t.in.cols - c))), counts);
  return sum_of(counts);
}

// Counts and sums of a batch, sixteen lanes at a time.
struct BatchCounts {
  Floats q2 = zero<float>(), err2 = q2;  // in units of unit^2
  Words nonzero_out = zero<std::uint32_t>();
  std::uint64_t clipped = 0;
  double unit;

  HWY_INLINE explicit BatchCounts(const BlockBatch& b) : unit(unit_of(b)) {}
  // `no_zeros`: no value is zero.
  HWY_INLINE BatchSums sums(const Tile& t, bool no_zeros) const {
    const std::uint64_t values = no_zeros ? t.in.size() : nonzero_of(t);
    return {unit, sum_of(q2), sum_of(err2), values, values - sum_of(nonzero_out), clipped};
  }
};

// PlainConversion and Conversion are two ways to convert a batch. Each has a type `Scales` for the scales of sixteen
// values, and a type `Block` for the sums of a block; y2 is the sum of the squares of the values in units of the scale.
// at(array) returns the numbers in an array for the blocks of sixteen values.

// True for nearly all batches of MX except INT8: each scale is a power of two and nothing clips. Values are then exact
// in units of their scales, so that statistics do not need decoded values.
bool is_plain(const Scaling& s, const BlockBatch& b) {
  return s.format.scheme == QuantScheme::mx && s.rounding.sign_bit != 0 && b.clipped == 0;
}
template <bool kStochastic>
class PlainConversion {
 public:
  struct Scales {
    Floats encode, decode;
  };
  struct Block {
    Floats y2 = zero<float>(), r2 = y2, err2 = y2;
    HWY_INLINE Block() {}
  };
  static constexpr bool kDraws = kStochastic;

  HWY_INLINE PlainConversion(const Scaling& s, const Tile& t, const BlockBatch& b)
      : batch_(b), element_(element_lanes(s.rounding)), column_keys_(t.column_keys), counts_(b) {
    const Floats inverse_unit = splat(static_cast<float>(1 / counts_.unit));
    for (Index i = 0; i < b.count; i += kSixteen) {
      const Floats scale = load(b.decode.data() + i) * inverse_unit;  // may be far too large for a block of zeros
      const Ints amax = load(b.amax_bits.data() + i), none = zero<std::int32_t>();
      store(squared_scale_.data() + i,
            bits_as<float>(if_equal(amax, none, none, bits_as<std::int32_t>(scale * scale))));
    }
  }

  HWY_INLINE Scales scales(const auto& at) const { return {at(batch_.encode), at(batch_.decode)}; }
  HWY_INLINE Floats operator()(Floats x, const Scales& scales, RowKey row, Index col, Block& block) {
    Floats y, r;
    if constexpr (kStochastic) {
      y = bits_as<float>(magnitude_bits(x)) * scales.encode;
      r = rounded_by_draw(element_, y, draws_of(row, column_keys_ + col));
    } else {  // both signs round alike; the sign of a zero is lost
      y = x * scales.encode;
      r = rounded_at(element_, y, exponent_bits(element_, y));
    }
    const Floats error = y - r;
    block.y2 = fused(y, y, block.y2);
    block.r2 = exactly_fused(r, r, block.r2);
    block.err2 = fused(error, error, block.err2);
    count_nonzero(r, counts_.nonzero_out);
    return with_signs_of(x, r * scales.decode);
  }
  HWY_INLINE void add(const Block& block, const auto& at) {
    const Floats scale2 = at(squared_scale_);
    counts_.q2 = fused(block.r2, scale2, counts_.q2);
    counts_.err2 = fused(block.err2, scale2, counts_.err2);
  }
  // Zeros become zeros: if no result is zero, no value was.
  HWY_INLINE BatchSums sums(const Tile& t) const { return counts_.sums(t, sum_of(counts_.nonzero_out) == t.in.size()); }

 private:
  const BlockBatch& batch_;
  ElementLanes element_;
  const std::uint32_t* column_keys_;
  BatchCounts counts_;
  alignas(64) std::array<float, kMaxBlocks> squared_scale_;  // in units of unit^2
};

// Converts any batch. `kCorrected`: the batch is known to have Scaling::Ratio::corrected.
template <bool kStochastic, bool kCorrected>
class Conversion {
 public:
  struct Scales {
    Floats encode, decode, in_units, out;
  };
  struct Block {
    Floats y2 = zero<float>();
    HWY_INLINE Block() {}
  };
  static constexpr bool kDraws = kStochastic;

  HWY_INLINE Conversion(const Scaling& s, const Tile& t, const BlockBatch& b)
      : batch_(b),
        out_decode_(t.bf16.data ? b.bf16_decode : b.decode),
        element_(element_lanes(s.rounding)),
        clip_limit_(splat(s.clip_limit)),
        column_keys_(t.column_keys),
        ratio_(s.ratio),
        clips_(b.clipped > 0),
        signed_zero_(s.rounding.sign_bit != 0),
        counts_(b) {
    inverse_unit_ = splat(static_cast<float>(1 / counts_.unit));
    for (Index i = 0; i < b.count; i += kSixteen)
      store(decode_in_units_.data() + i, load(b.decode.data() + i) * inverse_unit_);
  }

  HWY_INLINE Scales scales(const auto& at) const {
    return {at(batch_.encode), at(batch_.decode), at(decode_in_units_), at(out_decode_)};
  }
  HWY_INLINE Floats operator()(Floats x, const Scales& scales, RowKey row, Index col, Block& block) {
    const Ints magnitude = magnitude_bits(x);
    const Floats y = scaled(bits_as<float>(magnitude), scales.encode, scales.decode);
    Floats r;
    if constexpr (kStochastic)
      r = rounded_by_draw(element_, y, draws_of(row, column_keys_ + col));
    else
      r = rounded_to_nearest(element_, y);
    const Floats q = r * scales.in_units, error = bits_as<float>(magnitude) * inverse_unit_ - q;
    block.y2 = fused(y, y, block.y2);
    counts_.q2 = fused(q, q, counts_.q2);
    counts_.err2 = fused(error, error, counts_.err2);
    smallest_magnitude_ = smaller(smallest_magnitude_, magnitude);
    count_nonzero(r, counts_.nonzero_out);
    if (clips_) counts_.clipped += count_greater(y, clip_limit_);
    const Floats value = with_signs_of(x, r * scales.out);
    return signed_zero_ ? value : value + zero<float>();
  }
  HWY_INLINE void add(const Block&, const auto&) {}
  HWY_INLINE BatchSums sums(const Tile& t) const { return counts_.sums(t, min_of(smallest_magnitude_) > 0); }

 private:
  // The ratio is the same for a whole batch, so that branching here avoids a copy of the loop for each ratio.
  HWY_INLINE Floats scaled(Floats magnitude, Floats encode, Floats decode) const {
    if constexpr (kCorrected) return quotient(magnitude, decode, encode);
    if (ratio_ == Scaling::Ratio::multiplied) return magnitude * encode;
    if (ratio_ == Scaling::Ratio::corrected) return quotient(magnitude, decode, encode);
    if (ratio_ == Scaling::Ratio::divided) return magnitude / decode;
    return saturated(element_, bits_as<float>(magnitude_bits(magnitude * encode)));
  }

  const BlockBatch& batch_;
  const std::array<float, kMaxBlocks>& out_decode_;
  ElementLanes element_;
  Floats clip_limit_, inverse_unit_;
  const std::uint32_t* column_keys_;
  Scaling::Ratio ratio_;
  bool clips_, signed_zero_;
  BatchCounts counts_;
  Ints smallest_magnitude_ = splat(0x7FFFFFFF);  // bits of the smallest magnitude
  alignas(64) std::array<float, kMaxBlocks> decode_in_units_;
};

// Read the numbers of blocks for sixteen values: of one block that has all values, or of sixteen columns that are a
// block each.
struct OfBlock {
  Index index;
  HWY_INLINE Floats operator()(const std::array<float, kMaxBlocks>& numbers) const { return splat(numbers[index]); }
};
struct OfColumns {
  Index first;
  HWY_INLINE Floats operator()(const std::array<float, kMaxBlocks>& numbers) const {
    return load(numbers.data() + first);
  }
};

// Collects the sums of squares of consecutive blocks and joins the lanes of sixteen sums at a time.
class BlockSquares {
 public:
  HWY_INLINE explicit BlockSquares(BlockBatch& b) : x2_(b.x2.data()) {}
  HWY_INLINE void add(Floats y2) {
    store(waiting_ + (count_ & (kSixteen - 1)) * kSixteen, y2);
    if ((++count_ & (kSixteen - 1)) == 0) store(x2_ + count_ - kSixteen, joined_rows(waiting_, Sum()));
  }
  HWY_INLINE Index count() const { return count_; }
  HWY_INLINE void finish() {
    for (Index k = count_ / kSixteen * kSixteen; k < count_; ++k)
      x2_[k] = sum_of(load(waiting_ + k % kSixteen * kSixteen));
  }

 private:
  float* x2_;
  Index count_ = 0;
  alignas(64) float waiting_[kSixteen * kSixteen];
};

// One row of a tile, copied so that it is not read again from the tile after a store.
struct TileRow {
  Index index, to;  // `to`: position of its converted values
  const float* in;
  RowKey key;
};
template <class Convert>
HWY_INLINE TileRow row_of(const Tile& t, Index r) {
  return {r, r * t.out_stride(), t.in.row(r), Convert::kDraws ? row_key_of(t, r) : RowKey{}};
}

// Converts thirty-two values of one block, or of two.
template <Index kWidth>
HWY_INLINE void convert_pair(auto& convert, const Tile& t, const TileRow& row, Index c, BlockSquares& squares) {
  static_assert(kWidth == kSixteen || kWidth == 2 * kSixteen);
  using Convert = std::remove_reference_t<decltype(convert)>;
  const float* in = row.in + c;
  const OfBlock first{squares.count()}, last{kWidth == kSixteen ? first.index + 1 : first.index};
  typename Convert::Block first_block, second_block;
  fetch_below(t, row.index, c);
  fetch_below(t, row.index, c + kSixteen);
  const Floats values = convert(load(in), convert.scales(first), row.key, c, first_block);
  store_converted(t, row.to + c, values,
                  convert(load(in + kSixteen), convert.scales(last), row.key, c + kSixteen,
                          kWidth == kSixteen ? second_block : first_block));
  convert.add(first_block, first);
  squares.add(first_block.y2);
  if constexpr (kWidth == kSixteen) {
    convert.add(second_block, last);
    squares.add(second_block.y2);
  }
}

HWY_INLINE void convert_block(auto& convert, const Tile& t, const TileRow& row, Index c, Index width,
                              BlockSquares& squares) {
  const OfBlock at{squares.count()};
  const auto scales = convert.scales(at);
  const Index end = std::min(c + width, t.in.cols);
  typename std::remove_reference_t<decltype(convert)>::Block block;
  for (Index i = c; i < end; i += kSixteen) {
    fetch_below(t, row.index, i);
    store_converted(t, row.to + i, convert(load_first(row.in + i, end - i), scales, row.key, i, block), end - i);
  }
  convert.add(block, at);
  squares.add(block.y2);
}

// `kWidth`: width of the blocks if it is 16 or 32, otherwise 0.
template <class Convert, Index kWidth>
BatchSums rows(const Scaling& s, const Tile& tile, Index width, BlockBatch& b) {
  const Tile t = tile;  // a copy that stores cannot alias
  Convert convert(s, t, b);
  BlockSquares squares(b);
  for (Index r = 0; r < t.in.rows; ++r) {
    const TileRow row = row_of<Convert>(t, r);
    Index c = 0;
    if constexpr (kWidth > 0)
      for (; c + 2 * kSixteen <= t.in.cols; c += 2 * kSixteen) convert_pair<kWidth>(convert, t, row, c, squares);
    for (; c < t.in.cols; c += width) convert_block(convert, t, row, c, width, squares);
  }
  squares.finish();
  return convert.sums(t);
}

// Converts kStrips times sixteen columns side by side; with one strip, there may be fewer columns.
template <int kStrips, class Convert>
HWY_INLINE void convert_strips(Convert& convert, const Tile& t, Index first, BlockBatch& b) {
  static_assert(kStrips == 1 || kStrips % 2 == 0);
  typename Convert::Block blocks[kStrips];
  for (Index r = 0; r < t.in.rows; ++r) {
    const RowKey key = Convert::kDraws ? row_key_of(t, r) : RowKey{};
    const float* in = t.in.row(r);
    const Index to = r * t.out_stride();
    if constexpr (kStrips == 1) {
      fetch_below(t, r, first);
      const Floats x = load_first(in + first, t.in.cols - first);
      store_converted(t, to + first, convert(x, convert.scales(OfColumns{first}), key, first, blocks[0]),
                      t.in.cols - first);
    }
    for (Index k = 0; k + 1 < kStrips; k += 2) {
      const Index c = first + k * kSixteen, next = c + kSixteen;
      fetch_below(t, r, c);
      fetch_below(t, r, next);
      const Floats values = convert(load(in + c), convert.scales(OfColumns{c}), key, c, blocks[k]);
      store_converted(t, to + c, values,
                      convert(load(in + next), convert.scales(OfColumns{next}), key, next, blocks[k + 1]));
    }
  }
  for (Index k = 0; k < kStrips; ++k) {
    const OfColumns at{first + k * kSixteen};
    float* x2 = b.x2.data() + at.first;
    store(x2, load(x2) + blocks[k].y2);
    convert.add(blocks[k], at);
  }
}

template <class Convert>
BatchSums columns(const Scaling& s, const Tile& tile, BlockBatch& b) {
  constexpr int kStrips = 4;
  const Tile t = tile;
  Convert convert(s, t, b);
  Index c = 0;
  for (; c + kStrips * kSixteen <= t.in.cols; c += kStrips * kSixteen) convert_strips<kStrips>(convert, t, c, b);
  for (; c < t.in.cols; c += kSixteen) convert_strips<1>(convert, t, c, b);
  return convert.sums(t);
}

template <bool kStochastic>
BatchSums rows_rounded(const Scaling& s, const Tile& t, Index width, BlockBatch& b) {
  constexpr Index kMxWidth = 32, kNvfp4Width = 16;
  if (is_plain(s, b))
    return width == kMxWidth ? rows<PlainConversion<kStochastic>, kMxWidth>(s, t, width, b)
                             : rows<PlainConversion<kStochastic>, 0>(s, t, width, b);
  if (s.ratio == Scaling::Ratio::corrected && width == kNvfp4Width)
    return rows<Conversion<kStochastic, true>, kNvfp4Width>(s, t, width, b);
  return rows<Conversion<kStochastic, false>, 0>(s, t, width, b);
}
template <bool kStochastic>
BatchSums columns_rounded(const Scaling& s, const Tile& t, BlockBatch& b) {
  if (is_plain(s, b)) return columns<PlainConversion<kStochastic>>(s, t, b);
  if (s.ratio == Scaling::Ratio::corrected) return columns<Conversion<kStochastic, true>>(s, t, b);
  return columns<Conversion<kStochastic, false>>(s, t, b);
}

BatchSums rows_of_format(const Scaling& s, const Tile& t, Index width, BlockBatch& b) {
  return s.format.rounding == Rounding::stochastic ? rows_rounded<true>(s, t, width, b)
                                                   : rows_rounded<false>(s, t, width, b);
}
BatchSums columns_of_format(const Scaling& s, const Tile& t, BlockBatch& b) {
  return s.format.rounding == Rounding::stochastic ? columns_rounded<true>(s, t, b) : columns_rounded<false>(s, t, b);
}

BlockSums sums_of_blocks(const BlockBatch& b, double unit) {
  const Floats none = zero<float>(), largest = splat(std::numeric_limits<float>::max());
  const Floats inverse_unit = splat(static_cast<float>(1 / unit));
  Floats x2 = none, crest = none;
  for (Index i = 0; i < b.count; i += kSixteen) {
    const Floats block_amax = load(b.x2.data() + i), scaled = load(b.scaled_amax.data() + i);
    const Ints amax = load(b.amax_bits.data() + i),
               scaling = bits_as<std::int32_t>(load(b.decode.data() + i) * inverse_unit);
    const Floats scale =
        bits_as<float>(if_equal(amax, splat(0), splat(0), scaling));  // may be far too large for a block of zeros
    x2 += block_amax * scale * scale;
    crest +=
        square_root(scaled * scaled * load(b.elements.data() + i) / if_less(none, block_amax, block_amax, largest));
  }
  return {sum_of(x2), sum_of(crest)};
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

BatchSums convert_rows(const Scaling& scaling, const Tile& tile, Index width, BlockBatch& batch) {
  return HWY_DYNAMIC_DISPATCH(rows_of_format)(scaling, tile, width, batch);
}

BatchSums convert_columns(const Scaling& scaling, const Tile& tile, BlockBatch& batch) {
  return HWY_DYNAMIC_DISPATCH(columns_of_format)(scaling, tile, batch);
}

BlockSums sum_blocks(const BlockBatch& batch, double unit) {
  return HWY_DYNAMIC_DISPATCH(sums_of_blocks)(batch, unit);
}

}  // namespace moescope
#endif
