#include "core/numerics/operand_kernels.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/numerics/element_lanes.h"
#include "core/numerics/simd.h"

namespace moescope {
namespace {

constexpr std::size_t kWidth = kLanes<float>;
constexpr std::size_t kBatchElements = 4096;  // a batch is read twice and stays in the first cache
constexpr std::size_t kTileCols = 256;        // of a column tile: a kilobyte of each row, for the memory
constexpr std::size_t kStrip = 4;             // vectors side by side, of which a column tile's rows are written at once
constexpr std::size_t kTileRows = 128;        // sums down a column are taken over so many rows in float32
constexpr std::size_t kAreaCols = 1024;
constexpr std::int32_t kLimitBits = 0x7F000000;  // from 2^127 on a decoded value may be infinite

static_assert(kTileCols <= kScales && kTileCols % (kStrip * kWidth) == 0);

std::size_t vectors_in(std::size_t count) {
  return (count + kWidth - 1) / kWidth;
}

// What values add up to -----------------------------------------------------------------------------------------------

struct Counts {
  Ints nonzero{}, nonzero_out{}, clipped{};
};

template <Way kWay>
MOESCOPE_INLINE void add_counts(const Quantized& v, Floats clip_limit, Counts& counts) {
  counts.nonzero += one_if_any(v.magnitude);
  counts.nonzero_out += one_if_any((Ints)v.r);
  if constexpr (kWay != Way::nearest) counts.clipped -= v.y > clip_limit;
}

// In units of the scale.
struct Squares {
  Floats x2{}, q2{}, err2{};
};
MOESCOPE_INLINE void add_squares(const Quantized& v, Floats encode, Squares& squares) {
  const Floats error = ((Floats)v.magnitude - v.q) * encode;
  squares.x2 += v.y * v.y;
  squares.q2 += v.r * v.r;
  squares.err2 += error * error;
}

struct Totals {
  double x2 = 0, q2 = 0, xq = 0, err2 = 0;
  std::uint64_t nonzero = 0, underflow = 0, clipped = 0;
};

MOESCOPE_INLINE void add_counts(const Counts& counts, Totals& totals) {
  const auto nonzero = static_cast<std::uint64_t>(sum_of<std::int32_t>(counts.nonzero));
  totals.nonzero += nonzero;
  totals.underflow += nonzero - static_cast<std::uint64_t>(sum_of<std::int32_t>(counts.nonzero_out));
  totals.clipped += static_cast<std::uint64_t>(sum_of<std::int32_t>(counts.clipped));
}

void add_values(const Totals& t, double unit2, std::uint64_t elements, QuantSums& sums) {
  sums.x2 += t.x2 * unit2, sums.q2 += t.q2 * unit2, sums.err2 += t.err2 * unit2;
  sums.xq += t.xq * unit2;
  sums.elements += elements;
  sums.nonzero += t.nonzero, sums.underflow += t.underflow, sums.clipped += t.clipped;
}

// Batches ------------------------------------------------------------------------------------------------------------

// Up to kScales blocks: of rows one after the other, or of columns side by side. Arrays are filled up to a multiple of
// 16 by blocks of nothing.
struct Batch {
  Scales scales;
  std::size_t count = 0;
  double unit2 = 1;                                // square of a power of two near the largest scale
  alignas(64) std::array<float, kScales> weight2;  // square of the scale in that unit; 0 under a block of zeros
  alignas(64) std::array<float, kScales> x2;       // of the block, in units of its scale
  alignas(64) std::array<float, kScales> scaled_amax;
  std::int32_t top_amax = 0;  // bits
  std::int32_t spread = 0;    // binary exponents between the scales that matter
  std::int32_t clipped_blocks = 0;
};

// Largest magnitudes in units of the element.
MOESCOPE_SIMD void scale_amax(const Scaling& s, Batch& b) {
  const std::size_t padded = vectors_in(b.count) * kWidth;
  const float* __restrict encode = b.scales.encode.data();
  const float* __restrict decode = b.scales.decode.data();
  float* __restrict scaled = b.scaled_amax.data();
  if (s.format.scheme == QuantScheme::nvfp4)
    for (std::size_t i = 0; i < padded; ++i)
      scaled[i] = quotient(std::bit_cast<float>(b.scales.amax_bits[i]), decode[i], encode[i]);
  else
    for (std::size_t i = 0; i < padded; ++i) scaled[i] = std::bit_cast<float>(b.scales.amax_bits[i]) * encode[i];
}

// Everything about the batch that follows from its scales.
MOESCOPE_SIMD void weigh_blocks(const Scaling& s, Batch& b) {
  const std::size_t padded = vectors_in(b.count) * kWidth;
  scale_amax(s, b);
  const float clip_limit = s.clip_limit;
  std::int32_t top_amax = 0, top_code = 0, least_code = 255, clipped = 0;
  for (std::size_t i = 0; i < padded; ++i) {
    const std::int32_t amax = b.scales.amax_bits[i], code = b.scales.code[i];
    clipped += b.scaled_amax[i] > clip_limit;
    top_amax = std::max(top_amax, amax);
    top_code = std::max(top_code, amax == 0 ? 0 : code);
    least_code = std::min(least_code, amax == 0 ? 255 : code);
  }
  const std::int32_t exponent = std::clamp(top_code, 1, 253);
  const float inverse_unit = std::bit_cast<float>((254 - exponent) << 23);
  for (std::size_t i = 0; i < padded; ++i) {
    const float weight = b.scales.amax_bits[i] == 0 ? 0.0f : b.scales.decode[i] * inverse_unit;
    b.weight2[i] = weight * weight;
  }
  const double unit = std::bit_cast<double>(static_cast<std::int64_t>(exponent - 127 + 1023) << 52);
  b.unit2 = unit * unit;
  b.top_amax = top_code == 255 ? kInfinityBits : top_amax;
  b.spread = std::max(top_code - least_code, 0);
  b.clipped_blocks = clipped;
}

// Whether float32 may have lost what little error there is: values that vanish beside others of their batch while those
// are (nearly) exact.
bool lost_error(const Totals& t, std::int32_t spread) {
  return t.err2 <= t.x2 * 0x1p-60 && (t.underflow || (spread > 30 && t.x2 > 0));
}

// Adds a batch of blocks of `elements` values each, or of `last_elements` for the last of every `per_row`.
MOESCOPE_SIMD void add_blocks(const Batch& b, std::size_t per_row, std::size_t elements, std::size_t last_elements,
                              QuantSums& sums) {
  alignas(64) float size[kScales];
  const std::size_t padded = vectors_in(b.count) * kWidth;
  for (std::size_t i = 0; i < padded; ++i) size[i] = static_cast<float>(elements);
  if (last_elements != elements)
    for (std::size_t i = per_row - 1; i < b.count; i += per_row) size[i] = static_cast<float>(last_elements);
  alignas(64) float crest[kScales];
  std::int32_t nonzero = 0;
  for (std::size_t i = 0; i < padded; ++i) {
    const float x2 = b.x2[i] > 0 ? b.x2[i] : std::numeric_limits<float>::max();
    crest[i] = b.scaled_amax[i] * b.scaled_amax[i] * size[i] / x2;
    nonzero += b.scales.amax_bits[i] != 0;
  }
  for (std::size_t i = 0; i < padded; ++i) crest[i] = std::sqrt(crest[i]);
  Floats crest_sum{};
  for (std::size_t i = 0; i < padded; i += kWidth) crest_sum += load(crest + i);
  for (std::size_t i = 0; i < b.count; ++i) ++sums.e8m0_blocks[static_cast<std::size_t>(b.scales.code[i])];
  sums.blocks += b.count;
  sums.crest += sum_of<float>(crest_sum);
  sums.crest_blocks += static_cast<std::uint64_t>(nonzero);
  sums.clipped_blocks += static_cast<std::uint64_t>(b.clipped_blocks);
  sums.amax = std::max(sums.amax, std::bit_cast<float>(b.top_amax));
}

// One block, with its sums in double. `x2` in units of 1.
void add_block(const Scaling& s, const Batch& b, std::size_t index, std::size_t elements, double x2, QuantSums& sums) {
  ++sums.blocks;
  ++sums.e8m0_blocks[static_cast<std::size_t>(b.scales.code[index])];
  if (b.scales.code[index] == 255) return;
  const float amax = std::bit_cast<float>(b.scales.amax_bits[index]);
  sums.clipped_blocks += b.scaled_amax[index] > s.clip_limit;
  sums.amax = std::max(sums.amax, amax);
  if (amax == 0) return;
  ++sums.crest_blocks;
  sums.crest += amax / std::sqrt(x2 / static_cast<double>(elements));
}

// Carefully ----------------------------------------------------------------------------------------------------------

void spoil(const Tile& t, QuantSums& sums) {
  for (std::size_t r = 0; r < t.rows; ++r) {
    std::fill_n(t.out + r * t.out_stride, t.cols, std::numeric_limits<float>::quiet_NaN());
    for (std::size_t c = 0; c < t.cols; ++c) {
      const float magnitude = std::fabs(t.x[r * t.stride + c]);
      sums.nonzero += magnitude != 0;
      if (magnitude <= std::numeric_limits<float>::max()) sums.amax = std::max(sums.amax, magnitude);
    }
  }
  sums.elements += t.rows * t.cols;
}

// All values of the tile at one finite scale, sixteen at a time wherever they lie.
template <Way kWay>
MOESCOPE_INLINE Totals wide_totals(const Scaling& s, const Tile& t, float encode, float decode) {
  Totals totals;
  const std::size_t elements = t.rows * t.cols;
  for (std::size_t first = 0; first < elements; first += kWidth) {
    const std::size_t n = std::min(kWidth, elements - first);
    Floats x{};
    Words random{};
    for (std::size_t l = 0; l < n; ++l) {
      const std::size_t r = (first + l) / t.cols, c = (first + l) % t.cols;
      x[l] = t.x[r * t.stride + c];
      if constexpr (is_stochastic(kWay))
        random[l] = column_bits(row_key(t.key.seed, t.key.stream, t.key.first_row + r),
                                t.key.first_col + static_cast<std::uint32_t>(c));
    }
    const Quantized v = quantize_lanes<kWay>(s.rounding, x, Floats{} + encode, Floats{} + decode, random);
    for (std::size_t l = 0; l < n; ++l) {
      const std::size_t r = (first + l) / t.cols, c = (first + l) % t.cols;
      t.out[r * t.out_stride + c] = v.signed_value[l];
      const double magnitude = std::fabs(x[l]), q = v.q[l];
      totals.x2 += magnitude * magnitude;
      totals.q2 += q * q;
      totals.xq += magnitude * q;
      totals.err2 += (magnitude - q) * (magnitude - q);
      totals.nonzero += magnitude != 0;
      totals.underflow += magnitude != 0 && v.r[l] == 0;
      totals.clipped += v.y[l] > s.clip_limit;
    }
  }
  return totals;
}

#define MOESCOPE_FOR_EACH_WAY(body)                                                         \
  body(nearest, Way::nearest) body(saturating, Way::saturating) body(divided, Way::divided) \
      body(stochastic, Way::stochastic) body(stochastic_divided, Way::stochastic_divided)

Way way_of(const OperandFormat& format, bool clips) {
  const bool divided = format.scheme == QuantScheme::nvfp4;
  if (format.rounding == Rounding::stochastic) return divided ? Way::stochastic_divided : Way::stochastic;
  if (divided) return Way::divided;
  return clips ? Way::saturating : Way::nearest;
}

Totals wide_totals(const Scaling& s, const Tile& t, float encode, float decode) {
  switch (way_of(s.format, true)) {
    case Way::divided:
      return wide_totals<Way::divided>(s, t, encode, decode);
    case Way::stochastic:
      return wide_totals<Way::stochastic>(s, t, encode, decode);
    case Way::stochastic_divided:
      return wide_totals<Way::stochastic_divided>(s, t, encode, decode);
    default:
      return wide_totals<Way::saturating>(s, t, encode, decode);
  }
}

// One block of a batch.
void quantize_carefully(const Scaling& s, const Tile& block, const Batch& b, std::size_t index, QuantSums& sums) {
  Totals totals;
  if (b.scales.code[index] == 255) {
    spoil(block, sums);
  } else {
    totals = wide_totals(s, block, b.scales.encode[index], b.scales.decode[index]);
    add_values(totals, 1, block.rows * block.cols, sums);
  }
  add_block(s, b, index, block.rows * block.cols, totals.x2, sums);
}

// Rows ---------------------------------------------------------------------------------------------------------------

// Joins the quarters of a vector; `to` has room for four values.
template <class T, class Join>
MOESCOPE_INLINE void store_quarter(T* to, Lanes<T> v, Join join) {
  typedef T Half __attribute__((vector_size(32)));
  typedef T Quarter __attribute__((vector_size(16)));
  const Half half = join((Half)__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7),
                         (Half)__builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15));
  const Quarter quarter = join((Quarter)__builtin_shufflevector(half, half, 0, 1, 2, 3),
                               (Quarter)__builtin_shufflevector(half, half, 4, 5, 6, 7));
  std::memcpy(to, &quarter, sizeof(quarter));
}

// Joins every four neighbours.
template <class T, class Join>
MOESCOPE_INLINE void fold_quarters(const T* __restrict quarters, std::size_t count, T* __restrict to, Join join) {
  alignas(64) T pairs[2 * kScales];
  for (std::size_t i = 0; i < 2 * count; ++i) pairs[i] = join(quarters[2 * i], quarters[2 * i + 1]);
  for (std::size_t i = 0; i < count; ++i) to[i] = join(pairs[2 * i], pairs[2 * i + 1]);
}

constexpr auto kLarger = [](auto a, auto b) __attribute__((always_inline)) {
  return a > b ? a : b;
};
constexpr auto kSum = [](auto a, auto b) __attribute__((always_inline)) {
  return a + b;
};

// Calls body(width), with the usual widths as constants when they divide the rows.
template <class Body>
MOESCOPE_INLINE void for_width(const Tile& t, std::size_t width, const Body& body) {
  if (width == 32 && t.cols % 32 == 0) return body(std::integral_constant<std::size_t, 32>());
  if (width == 16 && t.cols % 16 == 0) return body(std::integral_constant<std::size_t, 16>());
  body(width);
}

// `count` values from column c on, the last ones of the row at most; a constant of for_width divides the row.
MOESCOPE_INLINE std::size_t block_length(const Tile& t, std::size_t c, std::size_t width) {
  return std::min(width, t.cols - c);
}
template <std::size_t kBlock>
MOESCOPE_INLINE std::size_t block_length(const Tile&, std::size_t, std::integral_constant<std::size_t, kBlock>) {
  return kBlock;
}

// Blocks of `width` values, row by row; the last of a row may be shorter.
template <class Width>
MOESCOPE_INLINE void find_row_amax(const Tile& t, Width width, std::int32_t* amax_bits) {
  alignas(64) std::int32_t quarters[4 * kScales];
  std::size_t j = 0;
  for (std::size_t r = 0; r < t.rows; ++r)
    for (std::size_t c = 0; c < t.cols; c += width, ++j) {
      Ints top{};
      for_each_vector(
          t.x + r * t.stride + c,
          block_length(t, c, width), [&](std::size_t, Floats x, std::size_t) __attribute__((always_inline)) {
            top = larger(top, magnitude_bits(x));
          });
      store_quarter<std::int32_t>(quarters + 4 * j, top, kLarger);
    }
  fold_quarters(quarters, j, amax_bits, kLarger);
}

MOESCOPE_SIMD void find_row_amax_of(const Tile& t, std::size_t width, std::int32_t* amax_bits) {
  for_width(
      t, width, [&](auto w) __attribute__((always_inline)) { find_row_amax(t, w, amax_bits); });
}

template <Way kWay, bool kSums, class Width>
MOESCOPE_INLINE void quantize_rows(const Scaling& s, const Tile& t, Width width, const Target& target, Batch& b,
                                   Totals& totals) {
  const ElementRounding f = s.rounding;
  const Floats clip_limit = Floats{} + s.clip_limit;
  const Words lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  alignas(64) float quarters[4 * kScales];
  Floats q2{}, err2{};
  Counts counts;
  std::size_t j = 0;
  for (std::size_t r = 0; r < t.rows; ++r) {
    RowKey key{};
    if constexpr (is_stochastic(kWay)) key = row_key(t.key.seed, t.key.stream, t.key.first_row + r);
    for (std::size_t c = 0; c < t.cols; c += width, ++j) {
      const float* in = t.x + r * t.stride + c;
      float* out = t.out + r * t.out_stride + c;
      const Floats encode = Floats{} + b.scales.encode[j], decode = Floats{} + b.scales.decode[j];
      Squares squares;
      for_each_vector(
          in,
          block_length(t, c, width), [&](std::size_t i, Floats x, std::size_t lanes) __attribute__((always_inline)) {
            __builtin_prefetch(in + i + target.ahead);
            Words random{};
            if constexpr (is_stochastic(kWay))
              random = column_bits(key, lane + (t.key.first_col + static_cast<std::uint32_t>(c + i)));
            const Quantized v = quantize_lanes<kWay>(f, x, encode, decode, random);
            write_lanes(target, out + i, v.signed_value, lanes);
            if constexpr (kSums) {
              add_squares(v, encode, squares);
              add_counts<kWay>(v, clip_limit, counts);
            }
          });
      if constexpr (kSums) {
        store_quarter<float>(quarters + 4 * j, squares.x2, kSum);
        q2 += squares.q2 * b.weight2[j];
        err2 += squares.err2 * b.weight2[j];
      }
    }
  }
  if constexpr (kSums) {
    fold_quarters(quarters, j, b.x2.data(), kSum);
    totals.q2 += sum_of<float>(q2), totals.err2 += sum_of<float>(err2);
    add_counts(counts, totals);
  }
}

using QuantizeRows = void (*)(const Scaling&, const Tile&, std::size_t, const Target&, Batch&, Totals&);
#define MOESCOPE_ROWS(name, way)                                                                                      \
  MOESCOPE_SIMD void rows_##name(const Scaling& s, const Tile& t, std::size_t width, const Target& target, Batch& b,  \
                                 Totals& totals) {                                                                    \
    quantize_rows<way, false>(s, t, width, target, b, totals);                                                        \
  }                                                                                                                   \
  MOESCOPE_SIMD void rows_##name##_sums(const Scaling& s, const Tile& t, std::size_t width, const Target& target,     \
                                        Batch& b, Totals& totals) {                                                   \
    for_width(                                                                                                        \
        t,                                                                                                            \
        width, [&](auto w) __attribute__((always_inline)) { quantize_rows<way, true>(s, t, w, target, b, totals); }); \
  }
MOESCOPE_FOR_EACH_WAY(MOESCOPE_ROWS)
#undef MOESCOPE_ROWS

QuantizeRows rows_function(Way way, bool sums) {
#define MOESCOPE_NAMES(name, way) {rows_##name, rows_##name##_sums},
  constexpr QuantizeRows kFunctions[][2] = {MOESCOPE_FOR_EACH_WAY(MOESCOPE_NAMES)};
#undef MOESCOPE_NAMES
  return kFunctions[static_cast<int>(way)][sums];
}

// Completes the totals of the first `count` blocks.
MOESCOPE_SIMD void add_x2(Batch& b, std::size_t count, Totals& totals) {
  Floats x2{};
  for (std::size_t i = count; i % kWidth; ++i) b.x2[i] = 0;
  for (std::size_t i = 0; i < vectors_in(count); ++i)
    x2 += load(b.x2.data() + i * kWidth) * load(b.weight2.data() + i * kWidth);
  totals.x2 = sum_of<float>(x2);
  totals.xq = (totals.x2 + totals.q2 - totals.err2) / 2;  // x2 - 2 xq + q2 = err2
}

// At most kScales blocks.
void quantize_row_batch(const Scaling& s, const Tile& t, std::size_t width, const Target& target, QuantSums* sums) {
  Batch b;
  const std::size_t per_row = (t.cols + width - 1) / width;
  b.count = t.rows * per_row;
  find_row_amax_of(t, width, b.scales.amax_bits.data());
  find_scales(s, b.count, b.scales);
  weigh_blocks(s, b);
  Totals totals;
  rows_function(way_of(s.format, b.clipped_blocks > 0), sums)(s, t, width, target, b, totals);
  if (!sums) return;
  add_x2(b, b.count, totals);
  if (b.top_amax < kLimitBits && !lost_error(totals, b.spread)) {
    add_values(totals, b.unit2, t.rows * t.cols, *sums);
    return add_blocks(b, per_row, width, t.cols - (per_row - 1) * width, *sums);
  }
  for (std::size_t j = 0; j < b.count; ++j)
    quantize_carefully(s, part_of(t, j / per_row, j % per_row * width, 1, width), b, j, *sums);
}

// Columns ------------------------------------------------------------------------------------------------------------

// `kVectors` neighbours of sixteen columns, from column c on, down a tile; `lanes` fewer than sixteen in a lone vector.
template <int kVectors>
MOESCOPE_INLINE void find_strip_amax(const Tile& t, std::size_t c, std::size_t lanes, std::int32_t* amax_bits) {
  Ints top[kVectors] = {};
  for (std::size_t r = 0; r < t.rows; ++r) {
    const float* x = t.x + r * t.stride + c;
#pragma GCC unroll 4
    for (int i = 0; i < kVectors; ++i) {
      const Floats v =
          lanes == kWidth ? load(x + static_cast<std::size_t>(i) * kWidth) : load_first(x, static_cast<int>(lanes));
      top[i] = larger(top[i], magnitude_bits(v));
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kVectors; ++i) store(amax_bits + c + static_cast<std::size_t>(i) * kWidth, top[i]);
}

// body(first column, number of vectors as a constant, lanes of each) for all strips of a tile.
template <class Body>
MOESCOPE_INLINE void for_each_strip(std::size_t cols, const Body& body) {
  std::size_t c = 0;
  for (; c + kStrip * kWidth <= cols; c += kStrip * kWidth) body.template operator()<kStrip>(c, kWidth);
  for (; c < cols; c += kWidth) body.template operator()<1>(c, std::min(kWidth, cols - c));
}

MOESCOPE_SIMD void find_column_amax(const Tile& t, std::int32_t* amax_bits) {
  for_each_strip(
      t.cols, [&]<int kVectors>(std::size_t c, std::size_t lanes)
                  __attribute__((always_inline)) { find_strip_amax<kVectors>(t, c, lanes, amax_bits); });
}

// Rows [first, first + rows) of a strip.
template <Way kWay, bool kSums, int kVectors>
MOESCOPE_INLINE void quantize_strip(const Scaling& s, const Tile& t, std::size_t first, std::size_t rows, std::size_t c,
                                    std::size_t lanes, const Target& target, Batch& b, Squares& total, Counts& counts) {
  const ElementRounding f = s.rounding;
  const Floats clip_limit = Floats{} + s.clip_limit;
  const Words lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  Squares squares[kVectors];
  Counts strip_counts;
  for (std::size_t r = first; r < first + rows; ++r) {
    const float* in = t.x + r * t.stride + c;
    float* out = t.out + r * t.out_stride + c;
    RowKey key{};
    if constexpr (is_stochastic(kWay)) key = row_key(t.key.seed, t.key.stream, t.key.first_row + r);
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kVectors; ++i) {
      __builtin_prefetch(in + i * kWidth + target.ahead);
      const Floats x = lanes == kWidth ? load(in + i * kWidth) : load_first(in, static_cast<int>(lanes));
      const Floats encode = load(b.scales.encode.data() + c + i * kWidth);
      const Floats decode = load(b.scales.decode.data() + c + i * kWidth);
      Words random{};
      if constexpr (is_stochastic(kWay))
        random = column_bits(key, lane + (t.key.first_col + static_cast<std::uint32_t>(c + i * kWidth)));
      const Quantized v = quantize_lanes<kWay>(f, x, encode, decode, random);
      write_lanes(target, out + i * kWidth, v.signed_value, lanes);
      if constexpr (kSums) {
        add_squares(v, encode, squares[i]);
        add_counts<kWay>(v, clip_limit, strip_counts);
      }
    }
  }
  if constexpr (kSums) {
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kVectors; ++i) {
      float* x2 = b.x2.data() + c + i * kWidth;
      const Floats weight2 = load(b.weight2.data() + c + i * kWidth);
      store(x2, first == 0 ? squares[i].x2 : load(x2) + squares[i].x2);
      total.q2 += squares[i].q2 * weight2;
      total.err2 += squares[i].err2 * weight2;
    }
    counts.nonzero += strip_counts.nonzero;
    counts.nonzero_out += strip_counts.nonzero_out;
    counts.clipped += strip_counts.clipped;
  }
}

template <Way kWay, bool kSums>
MOESCOPE_INLINE void quantize_columns(const Scaling& s, const Tile& t, const Target& target, Batch& b, Totals& totals) {
  for (std::size_t first = 0; first < t.rows; first += kTileRows) {
    const std::size_t rows = std::min(kTileRows, t.rows - first);
    Squares squares;
    Counts counts;
    for_each_strip(
        t.cols, [&]<int kVectors>(std::size_t c, std::size_t lanes) __attribute__((always_inline)) {
          quantize_strip<kWay, kSums, kVectors>(s, t, first, rows, c, lanes, target, b, squares, counts);
        });
    if constexpr (kSums) {
      totals.q2 += sum_of<float>(squares.q2), totals.err2 += sum_of<float>(squares.err2);
      add_counts(counts, totals);
    }
  }
}

using QuantizeColumns = void (*)(const Scaling&, const Tile&, const Target&, Batch&, Totals&);
#define MOESCOPE_COLUMNS(name, way)                                                                                    \
  MOESCOPE_SIMD void columns_##name(const Scaling& s, const Tile& t, const Target& target, Batch& b, Totals& totals) { \
    quantize_columns<way, false>(s, t, target, b, totals);                                                             \
  }                                                                                                                    \
  MOESCOPE_SIMD void columns_##name##_sums(const Scaling& s, const Tile& t, const Target& target, Batch& b,            \
                                           Totals& totals) {                                                           \
    quantize_columns<way, true>(s, t, target, b, totals);                                                              \
  }
MOESCOPE_FOR_EACH_WAY(MOESCOPE_COLUMNS)
#undef MOESCOPE_COLUMNS

QuantizeColumns columns_function(Way way, bool sums) {
#define MOESCOPE_NAMES(name, way) {columns_##name, columns_##name##_sums},
  constexpr QuantizeColumns kFunctions[][2] = {MOESCOPE_FOR_EACH_WAY(MOESCOPE_NAMES)};
#undef MOESCOPE_NAMES
  return kFunctions[static_cast<int>(way)][sums];
}

// At most kTileCols columns.
void quantize_column_batch(const Scaling& s, const Tile& t, const Target& target, QuantSums* sums) {
  Batch b;
  b.count = t.cols;
  find_column_amax(t, b.scales.amax_bits.data());
  find_scales(s, b.count, b.scales);
  weigh_blocks(s, b);
  Totals totals;
  columns_function(way_of(s.format, b.clipped_blocks > 0), sums)(s, t, target, b, totals);
  if (!sums) return;
  add_x2(b, b.count, totals);
  if (b.top_amax < kLimitBits && !lost_error(totals, b.spread)) {
    add_values(totals, b.unit2, t.rows * t.cols, *sums);
    return add_blocks(b, 1, t.rows, t.rows, *sums);
  }
  for (std::size_t c = 0; c < t.cols; ++c) quantize_carefully(s, part_of(t, 0, c, t.rows, 1), b, c, *sums);
}

MOESCOPE_SIMD std::int32_t row_amax_bits(const float* __restrict x, std::size_t count, std::int32_t top) {
  for (std::size_t i = 0; i < count; ++i) top = std::max(top, std::bit_cast<std::int32_t>(x[i]) & kMagnitudeMask);
  return top;
}

}  // namespace

float tile_amax(const Tile& t) {
  std::int32_t top = 0;
  for (std::size_t r = 0; r < t.rows; ++r) top = row_amax_bits(t.x + r * t.stride, t.cols, top);
  return std::bit_cast<float>(top);
}

void quantize_row_blocks(const Scaling& s, const Tile& t, std::size_t width, QuantSums* sums) {
  width = std::min(width, t.cols);
  if (width > kBatchElements)
    return for_each_part(t, 1, width, [&](const Tile& row) { quantize_area(s, row, tile_amax(row), sums); });
  const std::size_t padded = vectors_in(width) * kWidth;
  const std::size_t blocks = std::min(kScales, kBatchElements / padded);
  const std::size_t cols = std::min(t.cols, blocks * width), per_row = (cols + width - 1) / width;
  Target target = target_of(t, blocks * padded);
  target.bypass &= width % 4 == 0;
  for_each_part(t, blocks / per_row, cols, [&](const Tile& part) { quantize_row_batch(s, part, width, target, sums); });
  finish_writing(t);
}

void quantize_column_blocks(const Scaling& s, const Tile& t, std::size_t depth, QuantSums* sums) {
  const Target target = target_of(t, kTileCols);
  for_each_part(t, depth, kTileCols, [&](const Tile& part) { quantize_column_batch(s, part, target, sums); });
  finish_writing(t);
}

void quantize_area(const Scaling& s, const Tile& t, float amax, QuantSums* sums) {
  const std::size_t cols = std::min(t.cols, kAreaCols), rows = kBatchElements / (vectors_in(cols) * kWidth);
  Batch b;
  b.count = std::min(rows, kScales);
  std::fill_n(b.scales.amax_bits.begin(), b.count, std::bit_cast<std::int32_t>(amax));
  find_scales(s, b.count, b.scales);
  weigh_blocks(s, b);
  const QuantizeRows quantize = rows_function(way_of(s.format, b.clipped_blocks > 0), sums);
  const Target target = target_of(t, kBatchElements);
  double x2 = 0;
  for_each_part(t, b.count, cols, [&](const Tile& part) {
    Totals totals;
    quantize(s, part, cols, target, b, totals);
    if (!sums) return;
    if (b.scales.code[0] == 255) return spoil(part, *sums);
    add_x2(b, part.rows, totals);
    const bool wide = b.top_amax >= kLimitBits || lost_error(totals, 0);
    if (wide) totals = wide_totals(s, part, b.scales.encode[0], b.scales.decode[0]);
    add_values(totals, wide ? 1 : b.unit2, part.rows * part.cols, *sums);
    x2 += totals.x2 * (wide ? 1 : b.unit2);
  });
  finish_writing(t);
  if (sums) add_block(s, b, 0, t.rows * t.cols, x2, *sums);
}

}  // namespace moescope
