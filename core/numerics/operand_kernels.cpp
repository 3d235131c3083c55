#include "core/numerics/operand_kernels.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "core/numerics/counter_bits.h"
#include "core/numerics/simd.h"

namespace moescope {
namespace {

constexpr std::size_t kLaneCount = 16;
constexpr std::size_t kStripRows = 128;       // sums of squares of a column are taken over so many rows in float32
constexpr std::size_t kFlushElements = 8192;  // and those over lanes over so many elements
constexpr std::int32_t kMagnitudeMask = 0x7FFFFFFF;
constexpr std::int32_t kExponentMask = 0x7F800000;
constexpr std::int32_t kInfinityBits = 0x7F800000;
constexpr float kLeastFp8Amax = 1e-12f;
constexpr float kLeastNvfp4Scale = 0x1p-6f, kLeastNvfp4TensorScale = 0x1p-120f;

#define MOESCOPE_HOT [[gnu::always_inline]] inline

MOESCOPE_HOT std::int32_t bits_of(float v) {
  return std::bit_cast<std::int32_t>(v);
}
MOESCOPE_HOT float float_of(std::int32_t bits) {
  return std::bit_cast<float>(bits);
}

// Element conversions ------------------------------------------------------------------------------------------------

// `y`: magnitude in units of the element; at most 2 * max. Nearest-even, saturating.
MOESCOPE_HOT float round_nearest(const ElementRounding& f, float y) {
  const float magic = float_of(std::max(bits_of(y) & kExponentMask, f.min_normal_bits) + f.magic_offset);
  const float r = (y + magic) - magic;
  return r < f.max ? r : f.max;
}

// As a fixed-point number of 24 bits after the element's last one, plus 24 random bits, cut off.
MOESCOPE_HOT float round_stochastic(const ElementRounding& f, float y, std::uint32_t random) {
  const float clamped = y < f.max ? y : f.max;
  const std::int32_t exponent = std::max(bits_of(clamped) & kExponentMask, f.min_normal_bits);
  const float to_fixed = float_of((254 << 23) - exponent + ((f.mantissa_bits + 24) << 23));
  const float step = float_of(exponent - (f.mantissa_bits << 23));
  const std::int32_t fixed = static_cast<std::int32_t>(clamped * to_fixed) + static_cast<std::int32_t>(random >> 8);
  return static_cast<float>(fixed >> 24) * step;
}

// x / scale, rounded once, from the rounded reciprocal: several times faster than a division.
MOESCOPE_HOT float quotient(float x, float scale, float reciprocal) {
  const float near = x * reciprocal;
  return __builtin_fmaf(__builtin_fmaf(-near, scale, x), reciprocal, near);
}

// Sums over lanes ----------------------------------------------------------------------------------------------------

struct LaneSums {
  alignas(64) float q2[kLaneCount] = {};
  alignas(64) float err2[kLaneCount] = {};
  alignas(64) std::int32_t zero_in[kLaneCount] = {};
  alignas(64) std::int32_t zero_out[kLaneCount] = {};
  alignas(64) std::int32_t clipped[kLaneCount] = {};
};

template <class T>
MOESCOPE_HOT T total(const T (&lanes)[kLaneCount]) {
  T part[kLaneCount];
  for (std::size_t l = 0; l < kLaneCount; ++l) part[l] = lanes[l];
  for (std::size_t l = 0; l < 8; ++l) part[l] += part[l + 8];
  for (std::size_t l = 0; l < 4; ++l) part[l] += part[l + 4];
  return (part[0] + part[2]) + (part[1] + part[3]);
}

// 2^-k as float with k near the exponent of the scale: what sums of squares are taken relative to.
struct Unit {
  float inverse;
  double squared;  // of the unit itself
};
Unit unit_of(float top_scale) {
  const std::int32_t exponent = std::clamp(bits_of(top_scale) >> 23, 1, 253);
  const double unit = std::bit_cast<double>(static_cast<std::int64_t>(exponent - 127 + 1023) << 52);
  return {float_of((254 - exponent) << 23), unit * unit};
}

MOESCOPE_HOT void flush_squares(LaneSums& lanes, const Unit& unit, double& q2, double& err2) {
  q2 += static_cast<double>(total(lanes.q2)) * unit.squared;
  err2 += static_cast<double>(total(lanes.err2)) * unit.squared;
  std::memset(lanes.q2, 0, sizeof(lanes.q2));
  std::memset(lanes.err2, 0, sizeof(lanes.err2));
}

MOESCOPE_HOT void add_counts(const LaneSums& lanes, std::uint64_t elements, QuantSums& sums) {
  const auto zero_in = static_cast<std::uint64_t>(total(lanes.zero_in));
  sums.elements += elements;
  sums.nonzero += elements - zero_in;
  sums.underflow += static_cast<std::uint64_t>(total(lanes.zero_out)) - zero_in;
  sums.clipped += static_cast<std::uint64_t>(total(lanes.clipped));
}

// x2 - 2 xq + q2 = err2
void add_squares(double x2, double q2, double err2, QuantSums& sums) {
  sums.x2 += x2, sums.q2 += q2, sums.err2 += err2;
  sums.xq += (x2 + q2 - err2) / 2;
}

// One row of a tile --------------------------------------------------------------------------------------------------

// Scales of a row's columns, and what its columns add up to.
struct Columns {
  alignas(64) float encode[kTileCols];  // 1 / decode, rounded; y = x * encode, or x / decode for nvfp4
  alignas(64) float decode[kTileCols];
  alignas(64) float x2[kTileCols];  // sum of y * y
};
struct ColumnsAt {
  const float *encode, *decode;
  float* x2;
};

template <bool kStatistics, bool kStochastic, bool kDivide>
MOESCOPE_HOT void quantize_lanes(const ElementRounding& f, float clip_limit, float inverse_unit, const float* x,
                                 float* out, RowKey key, std::uint32_t column, const ColumnsAt& c, std::size_t i,
                                 std::size_t count, LaneSums& lanes) {
  for (std::size_t l = 0; l < count; ++l) {
    const std::int32_t bits = bits_of(x[i + l]);
    const float magnitude = float_of(bits & kMagnitudeMask);
    const float y = kDivide ? quotient(magnitude, c.decode[i + l], c.encode[i + l]) : magnitude * c.encode[i + l];
    float r;
    if constexpr (kStochastic)
      r = round_stochastic(f, y, column_bits(key, column + static_cast<std::uint32_t>(i + l)));
    else
      r = round_nearest(f, y);
    const float q = r * c.decode[i + l];
    out[i + l] = float_of(bits_of(q) | (bits & ~kMagnitudeMask));
    if constexpr (kStatistics) {
      const float scaled_q = q * inverse_unit, error = (magnitude - q) * inverse_unit;
      c.x2[i + l] += y * y;
      lanes.q2[l] += scaled_q * scaled_q;
      lanes.err2[l] += error * error;
      lanes.zero_in[l] += magnitude == 0;
      lanes.zero_out[l] += q == 0;
      lanes.clipped[l] += y > clip_limit;
    }
  }
}

template <bool kStatistics, bool kStochastic, bool kDivide>
MOESCOPE_HOT void quantize_row(const ElementRounding& f, float clip_limit, float inverse_unit,
                               const float* __restrict x, std::size_t cols, float* __restrict out, RowKey key,
                               std::uint32_t column, const ColumnsAt& c, LaneSums& __restrict sums) {
  LaneSums lanes = sums;
  std::size_t i = 0;
  for (; i + kLaneCount <= cols; i += kLaneCount)
    quantize_lanes<kStatistics, kStochastic, kDivide>(f, clip_limit, inverse_unit, x, out, key, column, c, i,
                                                      kLaneCount, lanes);
  if (i < cols)
    quantize_lanes<kStatistics, kStochastic, kDivide>(f, clip_limit, inverse_unit, x, out, key, column, c, i, cols - i,
                                                      lanes);
  if (!f.sign_bit)
    for (std::size_t k = 0; k < cols; ++k) out[k] += 0.0f;  // INT8 has no -0
  sums = lanes;
}

struct RowsDone {
  double q2 = 0, err2 = 0;
};

// At most kStripRows rows under the scales in `c`; `pitch` columns further for each row, so 0 when rows share them.
template <bool kStatistics, bool kStochastic, bool kDivide>
MOESCOPE_HOT void quantize_rows(const Scaling& s, const Tile& t, std::size_t first, std::size_t rows, const Unit& unit,
                                Columns& c, std::size_t pitch, QuantSums* sums, RowsDone& done) {
  LaneSums lanes;
  std::size_t pending = 0;
  for (std::size_t r = first; r < first + rows; ++r) {
    const std::size_t place = (r - first) * pitch;
    const ColumnsAt at{c.encode + place, c.decode + place, c.x2 + place};
    RowKey key{};
    if constexpr (kStochastic) key = row_key(t.key.seed, t.key.stream, t.key.first_row + r);
    quantize_row<kStatistics, kStochastic, kDivide>(s.rounding, s.clip_limit, unit.inverse, t.x + r * t.stride, t.cols,
                                                    t.out + r * t.out_stride, key, t.key.first_col, at, lanes);
    pending += t.cols;
    if (kStatistics && (pending >= kFlushElements || r + 1 == first + rows)) {
      flush_squares(lanes, unit, done.q2, done.err2);
      pending = 0;
    }
  }
  if constexpr (kStatistics) add_counts(lanes, rows * t.cols, *sums);
}

// Instantiated for each instruction set and each way of rounding.
using QuantizeRows = void (*)(const Scaling&, const Tile&, std::size_t, std::size_t, const Unit&, Columns&, std::size_t,
                              QuantSums*, RowsDone&);
#define MOESCOPE_ROWS(name, statistics, stochastic, divide)                                                       \
  MOESCOPE_SIMD void name(const Scaling& s, const Tile& t, std::size_t first, std::size_t rows, const Unit& unit, \
                          Columns& c, std::size_t pitch, QuantSums* sums, RowsDone& done) {                       \
    quantize_rows<statistics, stochastic, divide>(s, t, first, rows, unit, c, pitch, sums, done);                 \
  }
MOESCOPE_ROWS(rows_nearest, false, false, false)
MOESCOPE_ROWS(rows_nearest_sums, true, false, false)
MOESCOPE_ROWS(rows_stochastic, false, true, false)
MOESCOPE_ROWS(rows_stochastic_sums, true, true, false)
MOESCOPE_ROWS(rows_nearest_divided, false, false, true)
MOESCOPE_ROWS(rows_nearest_divided_sums, true, false, true)
MOESCOPE_ROWS(rows_stochastic_divided, false, true, true)
MOESCOPE_ROWS(rows_stochastic_divided_sums, true, true, true)
#undef MOESCOPE_ROWS

QuantizeRows rows_function(const OperandFormat& format, bool statistics) {
  constexpr QuantizeRows kFunctions[2][2][2] = {
      {{rows_nearest, rows_nearest_sums}, {rows_stochastic, rows_stochastic_sums}},
      {{rows_nearest_divided, rows_nearest_divided_sums}, {rows_stochastic_divided, rows_stochastic_divided_sums}}};
  return kFunctions[format.scheme == QuantScheme::nvfp4][format.rounding == Rounding::stochastic][statistics];
}

// Scales -------------------------------------------------------------------------------------------------------------

// Joins every `width` (a power of two) neighbours of `count` values, the last ones padded with zeros; count becomes
// that of the results, which are returned: `values` or `spare`.
template <class T, class Join>
MOESCOPE_HOT T* fold(T* values, T* spare, std::size_t& count, std::size_t width, Join join) {
  if (width > kLaneCount && count % width == 0) {
    const T* __restrict from = values;
    T* __restrict to = spare;
    for (std::size_t b = 0; b < count / width; ++b) {
      T lanes[kLaneCount];
      for (std::size_t l = 0; l < kLaneCount; ++l) lanes[l] = from[b * width + l];
      for (std::size_t i = kLaneCount; i < width; i += kLaneCount)
        for (std::size_t l = 0; l < kLaneCount; ++l) lanes[l] = join(lanes[l], from[b * width + i + l]);
      for (std::size_t l = 0; l < kLaneCount; ++l) to[b * kLaneCount + l] = lanes[l];
    }
    count = count / width * kLaneCount;
    width = kLaneCount;
    std::swap(values, spare);
  }
  for (; width > 1; width /= 2) {
    if (count % 2) values[count++] = 0;
    count /= 2;
    const T* __restrict from = values;
    T* __restrict to = spare;
    for (std::size_t i = 0; i < count; ++i) to[i] = join(from[2 * i], from[2 * i + 1]);
    std::swap(values, spare);
  }
  return values;
}

struct Scales {
  alignas(64) float encode[kTileCols];
  alignas(64) float decode[kTileCols];
  alignas(64) std::int32_t code[kTileCols];  // place in the histogram
};

MOESCOPE_HOT void find_fp8_scales(const Scaling& s, const std::int32_t* amax_bits, std::size_t count, Scales& scales) {
  const double max = s.rounding.max;
  const std::int32_t keep = s.format.power_of_two_scale ? kExponentMask : kMagnitudeMask;
  for (std::size_t i = 0; i < count; ++i) {
    const float amax = std::max(float_of(amax_bits[i]), kLeastFp8Amax);
    const float encode = float_of(bits_of(static_cast<float>(max / static_cast<double>(amax))) & keep);
    scales.encode[i] = encode;
    scales.decode[i] = 1.0f / encode;
  }
}

MOESCOPE_HOT void find_nvfp4_scales(const Scaling& s, const std::int32_t* amax_bits, std::size_t count,
                                    Scales& scales) {
  const ElementRounding f = rounding_of(ElementFormat::e4m3);
  const float tensor = s.tensor_scale;
  for (std::size_t i = 0; i < count; ++i) {
    const float wanted = float_of(amax_bits[i]) / 6.0f / tensor;
    const float block = round_nearest(f, std::min(std::max(wanted, kLeastNvfp4Scale), f.max));
    scales.decode[i] = tensor * block;
    scales.encode[i] = 1.0f / scales.decode[i];
  }
}

void find_mx_scales(const Scaling& s, const std::int32_t* amax_bits, std::size_t count, Scales& scales) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint8_t code = scale_code(s.format.rule, s.format.element, float_of(amax_bits[i]));
    scales.encode[i] = decode_e8m0(static_cast<std::uint8_t>(254 - code));
    scales.decode[i] = decode_e8m0(code);
  }
}

MOESCOPE_HOT void find_scales(const Scaling& s, const std::int32_t* amax_bits, std::size_t count, Scales& scales) {
  if (s.format.scheme == QuantScheme::fp8)
    find_fp8_scales(s, amax_bits, count, scales);
  else if (s.format.scheme == QuantScheme::nvfp4)
    find_nvfp4_scales(s, amax_bits, count, scales);
  else
    find_mx_scales(s, amax_bits, count, scales);
  for (std::size_t i = 0; i < count; ++i) scales.code[i] = bits_of(scales.decode[i]) >> 23;
}

MOESCOPE_HOT void spread(const Scales& scales, std::size_t count, std::size_t width, Columns& c) {
  if (width == 1) {
    std::memcpy(c.encode, scales.encode, count * sizeof(float));
    std::memcpy(c.decode, scales.decode, count * sizeof(float));
    return;
  }
  for (std::size_t b = 0; b < count; ++b)
    for (std::size_t i = b * width; i < (b + 1) * width; ++i) {
      c.encode[i] = scales.encode[b];
      c.decode[i] = scales.decode[b];
    }
}

// Figures of blocks
// ----------------------------------------------------------------------------------------------------

struct Blocks {
  const std::int32_t* amax_bits;
  const float* x2;  // sum of y * y
  std::size_t count;
  std::size_t per_row;                  // blocks side by side
  std::size_t elements, last_elements;  // of a block, and of the last one in a row
};

// Returns the sum of x * x.
MOESCOPE_HOT double add_blocks(const Scaling& s, const Blocks& b, const Scales& scales, const Unit& unit,
                               QuantSums& sums) {
  const bool divide = s.format.scheme == QuantScheme::nvfp4;
  alignas(64) float elements[kTileCols];
  std::fill_n(elements, b.count, static_cast<float>(b.elements));
  if (b.last_elements != b.elements)
    for (std::size_t i = b.per_row - 1; i < b.count; i += b.per_row) elements[i] = static_cast<float>(b.last_elements);
  alignas(64) float crest[kLaneCount] = {}, x2[kLaneCount] = {};
  std::int32_t clipped[kLaneCount] = {}, nonzero[kLaneCount] = {}, top[kLaneCount] = {};
  for (std::size_t i = 0; i < b.count; i += kLaneCount) {
    const std::size_t lanes = std::min(kLaneCount, b.count - i);
    for (std::size_t l = 0; l < lanes; ++l) {
      const float value = float_of(b.amax_bits[i + l]);
      const float amax =
          divide ? quotient(value, scales.decode[i + l], scales.encode[i + l]) : value * scales.encode[i + l];
      const float scale = scales.decode[i + l] * unit.inverse;
      crest[l] += b.x2[i + l] > 0 ? amax / std::sqrt(b.x2[i + l] / elements[i + l]) : 0.0f;
      x2[l] += b.x2[i + l] * scale * scale;
      clipped[l] += amax > s.clip_limit;
      nonzero[l] += b.x2[i + l] > 0;
      top[l] = std::max(top[l], b.amax_bits[i + l]);
    }
  }
  for (std::size_t i = 0; i < b.count; ++i) ++sums.e8m0_blocks[static_cast<std::size_t>(scales.code[i])];
  sums.blocks += b.count;
  sums.crest += total(crest);
  sums.crest_blocks += static_cast<std::uint64_t>(total(nonzero));
  sums.clipped_blocks += static_cast<std::uint64_t>(total(clipped));
  sums.amax = std::max(sums.amax, float_of(*std::max_element(top, top + kLaneCount)));
  return static_cast<double>(total(x2)) * unit.squared;
}

// Magnitudes' bits order like the magnitudes, NaN above infinity above all numbers.
MOESCOPE_HOT void raise_to_row(const float* __restrict x, std::size_t cols, std::int32_t* __restrict top) {
  for (std::size_t c = 0; c < cols; ++c) top[c] = std::max(top[c], bits_of(x[c]) & kMagnitudeMask);
}

// How a tile's columns lie in the arrays of scales: all rows above one another, or one row after the other.
struct Layout {
  std::size_t width;   // columns that share a scale
  std::size_t pitch;   // from row to row; 0 when all rows share their scales
  std::size_t length;  // of the arrays
};

// Everything about a tile's blocks.
struct TileBlocks {
  alignas(64) std::int32_t amax_bits[2][kTileCols];
  const std::int32_t* block_amax;  // in one of them
  std::size_t count;
  Scales scales;
  Columns columns;
};

// Scales of the tile's blocks; false when one is not finite.
MOESCOPE_SIMD bool prepare_tile(const Scaling& s, const Tile& t, const Layout& layout, TileBlocks& b, Unit& unit) {
  std::memset(b.amax_bits[0], 0, layout.length * sizeof(std::int32_t));
  for (std::size_t r = 0; r < t.rows; ++r) raise_to_row(t.x + r * t.stride, t.cols, b.amax_bits[0] + r * layout.pitch);
  b.count = layout.length;
  b.block_amax = fold(b.amax_bits[0], b.amax_bits[1], b.count, layout.width,
                      [](std::int32_t p, std::int32_t q) { return p > q ? p : q; });
  find_scales(s, b.block_amax, b.count, b.scales);
  std::int32_t top = 0, top_code = 0, top_scale = 0;
  for (std::size_t i = 0; i < b.count; ++i) {
    top = std::max(top, b.block_amax[i]);
    top_code = std::max(top_code, b.scales.code[i]);
    top_scale = std::max(top_scale, bits_of(b.scales.decode[i]));
  }
  if (top >= kInfinityBits || top_code == 255) return false;
  unit = unit_of(float_of(top_scale));
  spread(b.scales, b.count, layout.width, b.columns);
  return true;
}

// `x2` by column; destroyed.
MOESCOPE_SIMD double finish_tile(const Scaling& s, const Tile& t, const Layout& layout, float* x2, TileBlocks& b,
                                 const Unit& unit, QuantSums& sums) {
  std::size_t count = layout.length;
  const float* block_x2 = fold(x2, b.columns.x2, count, layout.width, [](float p, float q) { return p + q; });
  const std::size_t rows = layout.pitch ? 1 : t.rows;
  const std::size_t per_row = (t.cols + layout.width - 1) / layout.width;
  const std::size_t last = t.cols - (per_row - 1) * layout.width;
  return add_blocks(s, {b.block_amax, block_x2, count, per_row, rows * layout.width, rows * last}, b.scales, unit,
                    sums);
}

MOESCOPE_SIMD double sum_of(const float* values, std::size_t count) {
  float lanes[kLaneCount] = {};
  std::size_t i = 0;
  for (; i + kLaneCount <= count; i += kLaneCount)
    for (std::size_t l = 0; l < kLaneCount; ++l) lanes[l] += values[i + l];
  for (std::size_t l = 0; i + l < count; ++l) lanes[l] += values[i + l];
  return static_cast<double>(total(lanes));
}

bool quantize_blocks(const Scaling& s, const Tile& t, const Layout& layout, QuantSums* sums) {
  TileBlocks b;
  Unit unit;
  if (!prepare_tile(s, t, layout, b, unit)) return false;
  const QuantizeRows quantize = rows_function(s.format, sums != nullptr);
  alignas(64) float x2[kTileCols];
  RowsDone done;
  const std::size_t strip = layout.pitch ? t.rows : kStripRows;
  for (std::size_t r = 0; r < t.rows; r += strip) {
    if (sums) std::memset(b.columns.x2, 0, layout.length * sizeof(float));
    quantize(s, t, r, std::min(strip, t.rows - r), unit, b.columns, layout.pitch, sums, done);
    if (!sums) continue;
    if (r == 0)
      std::memcpy(x2, b.columns.x2, layout.length * sizeof(float));
    else
      for (std::size_t i = 0; i < layout.length; ++i) x2[i] += b.columns.x2[i];
  }
  if (sums) add_squares(finish_tile(s, t, layout, x2, b, unit, *sums), done.q2, done.err2, *sums);
  return true;
}

}  // namespace

Scaling scaling_of(const OperandFormat& format, float tensor_amax) {
  Scaling s{format, rounding_of(format.element), 0, 1};
  assert(format.scheme != QuantScheme::nvfp4 || format.element == ElementFormat::e2m1);
  // The rounding of an FP32 scale lifts amax above max by an ulp or two: that is not clipping.
  s.clip_limit = format.scheme == QuantScheme::fp8 ? s.rounding.max * (1 + 0x1p-20f) : s.rounding.max;
  if (format.scheme == QuantScheme::nvfp4)
    s.tensor_scale = std::max(tensor_amax / (448.0f * 6.0f), kLeastNvfp4TensorScale);
  return s;
}

bool quantize_tile(const Scaling& s, const Tile& t, std::size_t width, QuantSums* sums) {
  assert(t.cols <= kTileCols && std::has_single_bit(width));
  return quantize_blocks(s, t, {width, 0, t.cols}, sums);
}

bool quantize_separate_rows(const Scaling& s, const Tile& t, std::size_t width, QuantSums* sums) {
  const std::size_t pitch = (t.cols + width - 1) / width * width;
  assert(t.rows * pitch <= kTileCols && std::has_single_bit(width));
  return quantize_blocks(s, t, {width, pitch, t.rows * pitch}, sums);
}

bool quantize_area(const Scaling& s, const Tile& t, float amax, QuantSums* sums) {
  const std::int32_t amax_bits = bits_of(amax);
  Scales scales;
  find_scales(s, &amax_bits, 1, scales);
  if (amax_bits >= kInfinityBits || scales.code[0] == 255) return false;
  Columns c;
  const std::size_t width = std::min(t.cols, kTileCols);
  std::fill_n(c.encode, width, scales.encode[0]);
  std::fill_n(c.decode, width, scales.decode[0]);
  const Unit unit = unit_of(scales.decode[0]);
  const QuantizeRows quantize = rows_function(s.format, sums != nullptr);
  RowsDone done;
  double y2 = 0;
  for (std::size_t r = 0; r < t.rows; r += kStripRows) {
    const std::size_t rows = std::min(kStripRows, t.rows - r);
    for (std::size_t col = 0; col < t.cols; col += kTileCols) {
      Tile part{t.x + col, t.stride, t.rows, std::min(kTileCols, t.cols - col), t.out + col, t.out_stride, t.key};
      part.key.first_col += static_cast<std::uint32_t>(col);
      if (sums) std::memset(c.x2, 0, part.cols * sizeof(float));
      quantize(s, part, r, rows, unit, c, 0, sums, done);
      if (!sums) continue;
      y2 += sum_of(c.x2, part.cols);
    }
  }
  if (!sums) return true;
  const float x2 = static_cast<float>(y2);
  const Blocks one{&amax_bits, &x2, 1, 1, t.rows * t.cols, t.rows * t.cols};
  add_squares(add_blocks(s, one, scales, unit, *sums), done.q2, done.err2, *sums);
  return true;
}

// Without scales -----------------------------------------------------------------------------------------------------

namespace {

struct ValueSums {
  alignas(64) float x2[kLaneCount] = {};
  alignas(64) float q2[kLaneCount] = {};
  alignas(64) float err2[kLaneCount] = {};
  alignas(64) std::int32_t zero_in[kLaneCount] = {};
  alignas(64) std::int32_t zero_out[kLaneCount] = {};
  alignas(64) std::int32_t clipped[kLaneCount] = {};
};

MOESCOPE_HOT float bf16_stochastic(float value, std::uint32_t random) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + (random >> 16)) & 0xFFFF0000;
  return (bits & 0x7FFFFFFF) >= 0x7F800000 ? bf16_rounded(value) : std::bit_cast<float>(rounded);
}

// Sums leave out elements that are not finite, before or after.
MOESCOPE_HOT void add_values(const float* x, const float* q, std::size_t count, float inverse_unit, ValueSums& s) {
  for (std::size_t l = 0; l < count; ++l) {
    const std::int32_t x_bits = bits_of(x[l]) & kMagnitudeMask, q_bits = bits_of(q[l]) & kMagnitudeMask;
    const bool finite = q_bits < kInfinityBits;
    const float a = finite ? float_of(x_bits) * inverse_unit : 0.0f,
                b = finite ? float_of(q_bits) * inverse_unit : 0.0f;
    s.x2[l] += a * a;
    s.q2[l] += b * b;
    s.err2[l] += (a - b) * (a - b);
    s.zero_in[l] += x_bits == 0;
    s.zero_out[l] += q_bits == 0;
    s.clipped[l] += (x_bits < kInfinityBits) & (q_bits >= kInfinityBits);
  }
}

MOESCOPE_SIMD void add_value_row(const float* __restrict x, const float* __restrict q, std::size_t count,
                                 float inverse_unit, ValueSums& __restrict sums) {
  ValueSums s = sums;
  std::size_t i = 0;
  for (; i + kLaneCount <= count; i += kLaneCount) add_values(x + i, q + i, kLaneCount, inverse_unit, s);
  if (i < count) add_values(x + i, q + i, count - i, inverse_unit, s);
  sums = s;
}

MOESCOPE_SIMD void round_row_stochastic(const float* __restrict x, std::size_t count, RowKey key, std::uint32_t column,
                                        float* __restrict out) {
  for (std::size_t i = 0; i < count; ++i)
    out[i] = bf16_stochastic(x[i], column_bits(key, column + static_cast<std::uint32_t>(i)));
}

MOESCOPE_SIMD std::int32_t row_amax_bits(const float* __restrict x, std::size_t count, std::int32_t top) {
  for (std::size_t i = 0; i < count; ++i) top = std::max(top, bits_of(x[i]) & kMagnitudeMask);
  return top;
}

MOESCOPE_SIMD std::int32_t finite_amax_bits(const float* __restrict x, std::size_t count, std::int32_t top) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t bits = bits_of(x[i]) & kMagnitudeMask;
    top = std::max(top, bits < kInfinityBits ? bits : 0);
  }
  return top;
}

void add_few_rows(const Tile& t, std::size_t first, std::size_t rows, QuantSums& sums) {
  std::int32_t top = 0;
  for (std::size_t r = first; r < first + rows; ++r) top = finite_amax_bits(t.x + r * t.stride, t.cols, top);
  const Unit unit = unit_of(float_of(top));
  ValueSums s;
  for (std::size_t r = first; r < first + rows; ++r)
    add_value_row(t.x + r * t.stride, t.out + r * t.out_stride, t.cols, unit.inverse, s);
  const auto zero_in = static_cast<std::uint64_t>(total(s.zero_in));
  sums.elements += rows * t.cols;
  sums.nonzero += rows * t.cols - zero_in;
  sums.underflow += static_cast<std::uint64_t>(total(s.zero_out)) - zero_in;
  sums.clipped += static_cast<std::uint64_t>(total(s.clipped));
  sums.amax = std::max(sums.amax, float_of(top));
  add_squares(total(s.x2) * unit.squared, total(s.q2) * unit.squared, total(s.err2) * unit.squared, sums);
}

void for_few_rows(const Tile& t, auto body) {
  const std::size_t step = std::max<std::size_t>(1, kFlushElements / t.cols);
  for (std::size_t r = 0; r < t.rows; r += step) body(r, std::min(step, t.rows - r));
}

}  // namespace

void copy_values(const Tile& t, QuantSums* sums) {
  for_few_rows(t, [&](std::size_t first, std::size_t rows) {
    for (std::size_t r = first; r < first + rows; ++r)
      std::memcpy(t.out + r * t.out_stride, t.x + r * t.stride, t.cols * sizeof(float));
    if (sums) add_few_rows(t, first, rows, *sums);
  });
}

void round_values_bf16(const Tile& t, Rounding rounding, QuantSums* sums) {
  for_few_rows(t, [&](std::size_t first, std::size_t rows) {
    for (std::size_t r = first; r < first + rows; ++r) {
      const float* x = t.x + r * t.stride;
      float* out = t.out + r * t.out_stride;
      if (rounding == Rounding::nearest)
        round_bf16(x, t.cols, out);
      else
        round_row_stochastic(x, t.cols, row_key(t.key.seed, t.key.stream, t.key.first_row + r), t.key.first_col, out);
    }
    if (sums) add_few_rows(t, first, rows, *sums);
  });
}

float tile_amax(const Tile& t) {
  std::int32_t top = 0;
  for (std::size_t r = 0; r < t.rows; ++r) top = row_amax_bits(t.x + r * t.stride, t.cols, top);
  return float_of(top);
}

}  // namespace moescope
