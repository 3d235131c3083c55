#include "core/numerics/kernels/column_kernels.h"

#include <algorithm>
#include <cassert>

#include "core/numerics/kernels/lane_sums.h"
#include "core/numerics/kernels/nvfp4_lanes.h"
#include "core/numerics/kernels/simd.h"

namespace moescope {
namespace {

constexpr std::size_t kWidth = kLanes<float>;
constexpr std::size_t kStrip = 4;  // vectors side by side, so that a column tile's rows are written at once

static_assert(kTileCols <= kScales && kTileCols % (kStrip * kWidth) == 0);

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

// Rows [first, first + rows) of a strip.
template <Way kWay, bool kSums, bool kLines, int kVectors>
MOESCOPE_INLINE void quantize_strip(const LaneRounding& f, Floats clip_limit, const Tile& t, std::size_t first,
                                    std::size_t rows, std::size_t c, std::size_t lanes, const Target& target, Batch& b,
                                    Squares& total, Counts& counts) {
  Squares squares[kVectors];
  for (std::size_t r = first; r < first + rows; ++r) {
    const float* in = t.x + r * t.stride + c;
    const float* next = t.next + r * t.next_stride + c;
    float* out = t.out + r * t.out_stride + c;
    const RowKey key = row_key_of<kWay>(t, r);
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kVectors; ++i) {
      // NVFP4's tiles of sixteen rows fit into the first cache two at a time.
      if constexpr (divides(kWay))
        __builtin_prefetch(next + i * kWidth);
      else
        __builtin_prefetch(next + i * kWidth, 0, kSecondCache);
      const Floats x = lanes == kWidth ? load(in + i * kWidth) : load_first(in, static_cast<int>(lanes));
      const Floats encode = load(b.scales.encode.data() + c + i * kWidth);
      const Floats decode = load(b.scales.decode.data() + c + i * kWidth);
      const Quantized v =
          quantize_lanes<kWay>(f, x, encode, decode, draws_of<kWay>(key, t.column_keys + c + i * kWidth));
      write_vector<kLines>(target, out + i * kWidth, v.value, lanes);
      if constexpr (kSums) {
        squares[i].x2 += v.y * v.y;
        if constexpr (divides(kWay)) {
          const Floats error = x - v.value;
          total.q2 += v.value * v.value;
          total.err2 += error * error;
        } else {
          const Floats error = (x - v.value) * encode;  // in units of the scale, as the others
          squares[i].q2 += v.r * v.r;
          squares[i].err2 += error * error;
        }
        add_counts<kWay>(v, clip_limit, counts);
      }
    }
  }
  if constexpr (kSums) {
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kVectors; ++i) {
      float* x2 = b.x2.data() + c + i * kWidth;
      const Floats weight2 = load(b.weight2.data() + c + i * kWidth);
      store(x2, load(x2) + squares[i].x2);
      if constexpr (divides(kWay)) continue;
      total.q2 += squares[i].q2 * weight2;
      total.err2 += squares[i].err2 * weight2;
    }
  }
}

// A whole strip of NVFP4, with its sums.
template <Way kWay, bool kWide>
MOESCOPE_INLINE void quantize_nvfp4_strip(const LaneRounding& f, Floats clip_limit2, const Tile& t, std::size_t c,
                                          const Target& target, Batch& b, FourSums<kWide>& sums) {
  assert(t.rows <= kTileRows);
  Floats encode[kStrip], decode[kStrip], x2[kStrip] = {};
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kStrip; ++i) {
    encode[i] = load(b.scales.encode.data() + c + i * kWidth);
    decode[i] = load(b.scales.decode.data() + c + i * kWidth);
  }
  for (std::size_t r = 0; r < t.rows; ++r) {
    Floats x[kStrip], y[kStrip];
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kStrip; ++i) {
      // Tiles of sixteen rows fit into the first cache two at a time.
      __builtin_prefetch(t.next + r * t.next_stride + c + i * kWidth);
      x[i] = load(t.x + r * t.stride + c + i * kWidth);
    }
    quantize_four<kWay, kWide>(f, clip_limit2, x, encode, decode, row_key_of<kWay>(t, r), t.column_keys + c, target,
                               t.out + r * t.out_stride + c, y, sums);
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kStrip; ++i) x2[i] += y[i] * y[i];
  }
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kStrip; ++i) store(b.x2.data() + c + i * kWidth, x2[i]);
}

template <bool kWide>
MOESCOPE_INLINE void add_totals(const FourSums<kWide>& sums, const Tile& t, std::size_t cols, double unit2,
                                Totals& totals) {
  const std::uint64_t nonzero = sums.has_zero() ? count_nonzero(t, cols) : t.rows * cols;
  totals.q2 += sum_of<float>(sums.q2) / unit2, totals.err2 += sum_of<float>(sums.err2) / unit2;
  totals.nonzero += nonzero;
  totals.underflow += nonzero - sums.nonzero_out.count();
  totals.clipped += sums.clipped.count();
}

template <Way kWay, bool kSums, bool kLines>
MOESCOPE_INLINE void quantize_columns(const Scaling& s, const Tile& tile, const Target& to, Batch& b, Totals& totals) {
  const Tile t = tile;  // copies, which no writing changes
  const Target target = to;
  const LaneRounding f = lane_rounding(s.rounding);
  const Floats clip_limit = splat(s.clip_limit);
  constexpr bool kByFour = kSums && divides(kWay);
  const bool by_four = kByFour && amax_fits(s, b.top_amax);
  for (std::size_t first = 0; first < t.rows; first += kTileRows) {
    const std::size_t rows = std::min(kTileRows, t.rows - first);
    Squares squares;
    Counts counts;
    FourSums<kLines> sums;
    for_each_strip(
        t.cols, [&]<int kVectors>(std::size_t c, std::size_t lanes) __attribute__((always_inline)) {
          if constexpr (kByFour && kVectors == kStrip)
            if (by_four) return quantize_nvfp4_strip<kWay, kLines>(f, clip_limit * clip_limit, t, c, target, b, sums);
          quantize_strip<kWay, kSums, kLines, kVectors>(f, clip_limit, t, first, rows, c, lanes, target, b, squares,
                                                        counts);
        });
    if constexpr (kSums) {
      const double unit2 = divides(kWay) ? b.unit2 : 1;
      totals.q2 += sum_of<float>(squares.q2) / unit2, totals.err2 += sum_of<float>(squares.err2) / unit2;
      add_counts(counts, totals);
      if (by_four) add_totals(sums, t, t.cols / (kStrip * kWidth) * (kStrip * kWidth), unit2, totals);
    }
  }
}

#define MOESCOPE_COLUMNS(simd, name, way, sums, lines)                                              \
  simd void name(const Scaling& s, const Tile& t, const Target& target, Batch& b, Totals& totals) { \
    quantize_columns<way, sums, lines>(s, t, target, b, totals);                                    \
  }
#define MOESCOPE_ALL_COLUMNS(name, way)                                    \
  MOESCOPE_COLUMNS(MOESCOPE_SIMD, columns_##name, way, false, false)       \
  MOESCOPE_COLUMNS(MOESCOPE_SIMD, columns_##name##_sums, way, true, false) \
  MOESCOPE_COLUMNS(MOESCOPE_SIMD_LINES, columns_##name##_sums_lines, way, true, true)
MOESCOPE_FOR_EACH_WAY(MOESCOPE_ALL_COLUMNS)
#undef MOESCOPE_ALL_COLUMNS
#undef MOESCOPE_COLUMNS

}  // namespace

QuantizeColumns columns_function(const OperandFormat& format, bool clips, bool sums, bool lines) {
  const Way way = way_of(format, clips);
#define MOESCOPE_NAMES(name, way) {columns_##name, columns_##name##_sums, columns_##name##_sums_lines},
  constexpr QuantizeColumns kFunctions[][3] = {MOESCOPE_FOR_EACH_WAY(MOESCOPE_NAMES)};
#undef MOESCOPE_NAMES
  return kFunctions[static_cast<int>(way)][sums ? 1 + lines : 0];
}

MOESCOPE_SIMD void find_column_amax(const Tile& t, std::int32_t* amax_bits) {
  for_each_strip(
      t.cols, [&]<int kVectors>(std::size_t c, std::size_t lanes)
                  __attribute__((always_inline)) { find_strip_amax<kVectors>(t, c, lanes, amax_bits); });
}

// Eight rows at a time, over all columns.
MOESCOPE_SIMD void raise_column_amax(const Tile& t, std::int32_t* amax_bits) {
  constexpr std::size_t kRows = 8;
  for (std::size_t r = 0; r < t.rows; r += kRows) {
    const std::size_t rows = std::min(kRows, t.rows - r);
    const float* first = t.x + r * t.stride;
    for (std::size_t c = 0; c < t.cols; c += kWidth) {
      Ints top = load(amax_bits + c);
      for (std::size_t k = 0; k < rows; ++k) {
        const float* x = first + k * t.stride + c;
        const bool whole = c + kWidth <= t.cols;
        top = larger(top, magnitude_bits(whole ? load(x) : load_first(x, static_cast<int>(t.cols - c))));
      }
      store(amax_bits + c, top);
    }
  }
}

}  // namespace moescope
