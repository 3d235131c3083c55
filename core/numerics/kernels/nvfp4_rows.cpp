#include "core/numerics/kernels/nvfp4_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/numerics/kernels/lane_joins.h"
#include "core/numerics/kernels/lane_sums.h"
#include "core/numerics/kernels/nvfp4_lanes.h"
#include "core/numerics/kernels/nvfp4_scales.h"
#include "core/numerics/kernels/simd.h"
#include "core/numerics/kernels/wide_lanes.h"

namespace moescope {
namespace {

constexpr std::size_t kWidth = kLanes<float>;
constexpr std::size_t kQuarter = kNvfp4Group / 4;

// Sixteen blocks: their scales, and the largest magnitudes that they come from.
struct Group {
  alignas(64) std::int32_t amax_bits[kWidth];
  alignas(64) float encode[kWidth], decode[kWidth], scaled_amax[kWidth];
};

template <bool kWide>
struct Running {
  FourSums<kWide> values;
  Floats x2{}, crest{};
  Words nonzero_blocks{}, clipped_blocks{};
  Ints top_amax{};
};

struct Sums {
  double x2, q2, err2, crest;
  std::uint64_t clipped, nonzero_out, nonzero_blocks, clipped_blocks;
  std::int32_t top_amax;  // bits
  bool zeros;             // whether there is a value of 0
};

// Goes from group to group, row by row.
struct Place {
  std::size_t row = 0, col = 0;
  MOESCOPE_INLINE void advance(const Tile& t) {
    col += kNvfp4Group;
    if (col == t.cols) col = 0, ++row;
  }
};

// Four magnitudes for each of four blocks, of which the largest is the block's.
template <bool kWide>
MOESCOPE_INLINE void find_quarter_amax(const float* x, std::int32_t* quarters) {
  Floats v[4];
#pragma GCC unroll 4
  for (std::size_t k = 0; k < 4; ++k) v[k] = load(x + k * kWidth);
  store(quarters,
        (Ints)joined_quarters<float>(
            v, [](Floats a, Floats b) __attribute__((always_inline)) { return larger_magnitude<kWide>(a, b); }));
}

struct Divisor {
  Floats value, inverse;
  MOESCOPE_INLINE explicit Divisor(float v) : value(splat(v)), inverse(splat(1 / v)) {}
};

// Scales of a group on their way from `quarters`, a step for each quarter of another group that is quantized meanwhile.
struct ScalesToBe {
  Ints amax;
  Floats wanted, decode, encode;
};
template <std::size_t kStep, bool kWide>
MOESCOPE_INLINE void find_scales(const std::int32_t* quarters, const Divisor& six, const Divisor& tensor, ScalesToBe& s,
                                 Group& g, std::int32_t* codes) {
  if constexpr (kStep == 0) {
    s.amax = joined_sixteen(quarters, kLarger);
    s.wanted = quotient_lanes<kWide>((Floats)s.amax, six.value, six.inverse);
  }
  if constexpr (kStep == 1)
    s.decode = nvfp4_decode_of(quotient_lanes<kWide>(s.wanted, tensor.value, tensor.inverse), tensor.value);
  if constexpr (kStep == 2) s.encode = 1.0f / s.decode;
  if constexpr (kStep == 3) {
    store(g.amax_bits, s.amax);
    store(g.encode, s.encode);
    store(g.decode, s.decode);
    store(g.scaled_amax, quotient_lanes<kWide>((Floats)s.amax, s.decode, s.encode));
    store(codes, (Ints)s.decode >> 23 & 255);
  }
}

// Figures of a group's blocks, of which `quarters` holds the squares; in as many steps.
template <std::size_t kStep>
MOESCOPE_INLINE void add_group(const Group& g, const float* quarters, Floats clip_limit, Floats& crest, auto& sums) {
  if constexpr (kStep == 0) {
    const Ints amax = load(g.amax_bits);
    const Floats x2 = joined_sixteen(quarters, kSum), decode = load(g.decode), scaled = load(g.scaled_amax);
    sums.x2 += x2 * decode * decode;
    sums.top_amax = larger(sums.top_amax, amax);
    sums.nonzero_blocks = counted(sums.nonzero_blocks, amax);
    sums.clipped_blocks = scaled > clip_limit ? sums.clipped_blocks + 1 : sums.clipped_blocks;
    const Floats largest = splat(std::numeric_limits<float>::max());
    crest = scaled * scaled * static_cast<float>(kWidth) / (x2 > 0 ? x2 : largest);
  }
  if constexpr (kStep == 1) crest = square_root(crest);
  if constexpr (kStep == 2) sums.crest += crest;
}

// Four blocks. `quarters` gets what their squares add up to, in units of their scales.
template <Way kWay, bool kWide>
MOESCOPE_INLINE void quantize_quarter(const LaneRounding& f, Floats clip_limit2, const float* x, const float* next,
                                      float* out, const std::uint32_t* column_keys, RowKey key, const float* encodes,
                                      const float* decodes, const Target& target, float* quarters,
                                      Running<kWide>& sums) {
  Floats values[4], encode[4], decode[4], y[4];
#pragma GCC unroll 4
  for (std::size_t k = 0; k < 4; ++k) {
    __builtin_prefetch(next + k * kWidth, 0, kSecondCache);
    values[k] = load(x + k * kWidth);
    encode[k] = splat_at<kWide>(encodes + k), decode[k] = splat_at<kWide>(decodes + k);
  }
  quantize_four<kWay, kWide>(f, clip_limit2, values, encode, decode, key, column_keys, target, out, y, sums.values);
  if constexpr (is_stochastic(kWay)) {
    const auto squares = [](Floats a, Floats b) __attribute__((always_inline)) {
      return a * a + b * b;
    };
    store(quarters, joined_quarters<float>(y, squares, kSum));
  } else {  // whose squares are there already
    const Floats y2[4] = {y[0] * y[0], y[1] * y[1], y[2] * y[2], y[3] * y[3]};
    store(quarters, joined_quarters<float>(y2, kSum));
  }
}

template <bool kWide>
MOESCOPE_INLINE Sums joined(const Running<kWide>& r) {
  return {sum_of<float>(r.x2),
          sum_of<float>(r.values.q2),
          sum_of<float>(r.values.err2),
          sum_of<float>(r.crest),
          r.values.clipped.count(),
          r.values.nonzero_out.count(),
          sum_of<std::uint32_t>(r.nonzero_blocks),
          sum_of<std::uint32_t>(r.clipped_blocks),
          max_of<std::int32_t>(r.top_amax),
          r.values.has_zero()};
}

// What is found for a group takes long, one operation waiting for the other. While one group is quantized, the scales
// of the next are found, from largest magnitudes found one group before, and the figures of the last one are added.
template <Way kWay, bool kWide>
MOESCOPE_INLINE Sums quantize_groups(const Scaling& s, const Tile& tile, const Target& to, std::int32_t* codes) {
  const Tile t = tile;  // copies, which no writing changes
  const Target target = to;
  const LaneRounding f = lane_rounding(s.rounding);
  const Floats clip_limit = splat(s.clip_limit), clip_limit2 = splat(s.clip_limit * s.clip_limit);  // 36, exactly
  const Divisor six(6.0f), tensor(s.tensor_scale);
  const std::size_t groups = t.rows * t.cols / kNvfp4Group;
  Running<kWide> sums;
  Group scales[2] = {};
  ScalesToBe coming;
  Floats crest;
  alignas(64) std::int32_t amax[4 * kWidth];
  alignas(64) float x2[4 * kWidth] = {};
  Place at, ahead;
  const auto find_amax = [&](std::size_t quarter) __attribute__((always_inline)) {
    find_quarter_amax<kWide>(t.x + ahead.row * t.stride + ahead.col + quarter * kQuarter, amax + quarter * kWidth);
  };
  const auto for_each_quarter = [](const auto& body) __attribute__((always_inline)) {
    body.template operator()<0>(), body.template operator()<1>();
    body.template operator()<2>(), body.template operator()<3>();
  };
  for_each_quarter([&]<std::size_t kIndex>() __attribute__((always_inline)) { find_amax(kIndex); });
  for_each_quarter([&]<std::size_t kStep>() __attribute__((always_inline)) {
    find_scales<kStep, kWide>(amax, six, tensor, coming, scales[0], codes);
  });
  if (groups > 1) ahead.advance(t);
  for_each_quarter([&]<std::size_t kIndex>() __attribute__((always_inline)) { find_amax(kIndex); });
  for (std::size_t i = 0; i < groups; ++i, at.advance(t)) {
    const Group& g = scales[i % 2];
    Group& other = scales[(i + 1) % 2];  // the last one, then the next; after the last of all, that one again
    std::int32_t* next_codes = codes + std::min(i + 1, groups - 1) * kWidth;
    if (i + 2 < groups) ahead.advance(t);
    const RowKey key = row_key_of<kWay>(t, at.row);
    const float* x = t.x + at.row * t.stride + at.col;
    const float* next = t.next + at.row * t.next_stride + at.col;
    float* out = t.out + at.row * t.out_stride + at.col;
    for_each_quarter([&]<std::size_t kIndex>() __attribute__((always_inline)) {
      add_group<kIndex>(other, x2, clip_limit, crest, sums);
      find_scales<kIndex, kWide>(amax, six, tensor, coming, other, next_codes);
      find_amax(kIndex);
      constexpr std::size_t c = kIndex * kQuarter;
      quantize_quarter<kWay, kWide>(f, clip_limit2, x + c, next + c, out + c, t.column_keys + at.col + c, key,
                                    g.encode + 4 * kIndex, g.decode + 4 * kIndex, target, x2 + kIndex * kWidth, sums);
    });
  }
  for_each_quarter([&]<std::size_t kStep>() __attribute__((always_inline)) {
    add_group<kStep>(scales[(groups - 1) % 2], x2, clip_limit, crest, sums);
  });
  return joined(sums);
}

#define MOESCOPE_GROUPS(simd, name, way, wide)                                                 \
  simd Sums name(const Scaling& s, const Tile& t, const Target& target, std::int32_t* codes) { \
    return quantize_groups<way, wide>(s, t, target, codes);                                    \
  }
MOESCOPE_GROUPS(MOESCOPE_SIMD, quantize_nearest, Way::divided, false)
MOESCOPE_GROUPS(MOESCOPE_SIMD_LINES, quantize_nearest_wide, Way::divided, true)
MOESCOPE_GROUPS(MOESCOPE_SIMD, quantize_stochastic, Way::stochastic_divided, false)
MOESCOPE_GROUPS(MOESCOPE_SIMD_LINES, quantize_stochastic_wide, Way::stochastic_divided, true)
#undef MOESCOPE_GROUPS

}  // namespace

// Scales lie between 2^-6 and 448 times the tensor's, and values and errors close to their blocks' scales matter.
bool nvfp4_sums_fit(const Scaling& s) {
  return s.tensor_scale > 0x1p-40f && s.tensor_scale < 0x1p40f;
}

bool quantize_nvfp4_rows(const Scaling& s, const Tile& t, const Target& target, ScaleCounts& counts, QuantSums& total) {
  alignas(64) std::int32_t codes[kScales];
  const bool stochastic = s.format.rounding == Rounding::stochastic;
  const auto quantize = target.lines ? stochastic ? quantize_stochastic_wide : quantize_nearest_wide
                        : stochastic ? quantize_stochastic
                                     : quantize_nearest;
  const Sums sums = quantize(s, t, target, codes);
  const std::uint64_t elements = t.rows * t.cols, nonzero = sums.zeros ? count_nonzero(t, t.cols) : elements;
  Totals totals{.x2 = sums.x2, .q2 = sums.q2, .err2 = sums.err2, .nonzero = nonzero, .clipped = sums.clipped};
  totals.underflow = nonzero - sums.nonzero_out;
  totals.find_xq();
  const bool finite = std::isfinite(sums.x2);  // top_amax may not tell of a NaN
  if (!finite || !amax_fits(s, sums.top_amax) || !sums_hold(sums.top_amax, 0, totals)) return false;
  add_values(totals, 1, elements, total);
  total.blocks += elements / kWidth;
  total.crest += sums.crest;
  total.crest_blocks += sums.nonzero_blocks;
  total.clipped_blocks += sums.clipped_blocks;
  total.amax = std::max(total.amax, std::bit_cast<float>(sums.top_amax));
  counts.add(codes, elements / kWidth);
  return true;
}

}  // namespace moescope
