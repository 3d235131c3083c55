#include "core/numerics/nvfp4_rows.h"

#include <algorithm>
#include <bit>

#include "core/numerics/lane_joins.h"
#include "core/numerics/lane_sums.h"
#include "core/numerics/nvfp4_scales.h"
#include "core/numerics/simd.h"

namespace moescope {
namespace {

constexpr std::size_t kWidth = kLanes<float>;
constexpr std::size_t kQuarter = kNvfp4Group / 4;

// Scales of sixteen blocks, and the largest magnitudes that they come from.
struct Group {
  alignas(64) float encode[kWidth], decode[kWidth], scaled_amax[kWidth];
};

struct Sums {
  Floats x2{}, q2{}, err2{}, crest{};
  Counts counts;
  Words nonzero_blocks{}, clipped_blocks{};
  Ints top_amax{};
};

// Goes from group to group, row by row.
struct Place {
  std::size_t row = 0, col = 0;
  MOESCOPE_INLINE void advance(const Tile& t) {
    col += kNvfp4Group;
    if (col == t.cols) col = 0, ++row;
  }
};

// Four values for each of four blocks, of which the largest is the block's.
MOESCOPE_INLINE void find_quarter_amax(const float* x, std::int32_t* quarters) {
  Ints top[4];
#pragma GCC unroll 4
  for (std::size_t k = 0; k < 4; ++k) top[k] = magnitude_bits(load(x + k * kWidth));
  store(quarters, joined_quarters<std::int32_t>(top, kLarger));
}

MOESCOPE_INLINE void find_group_scales(const std::int32_t* quarters, float tensor_scale, Floats clip_limit, Group& g,
                                       std::int32_t* codes, Sums& sums) {
  const Ints amax = joined_sixteen(quarters, kLarger);
  const Floats decode = nvfp4_decode((Floats)amax, tensor_scale), encode = 1.0f / decode;
  const Floats scaled = quotient((Floats)amax, decode, encode);
  store(g.encode, encode);
  store(g.decode, decode);
  store(g.scaled_amax, scaled);
  store(codes, (Ints)decode >> 23 & 255);
  sums.top_amax = larger(sums.top_amax, amax);
  sums.nonzero_blocks = counted(sums.nonzero_blocks, amax);
  sums.clipped_blocks = scaled > clip_limit ? sums.clipped_blocks + 1 : sums.clipped_blocks;
}

// Four blocks, taken through each step together: one alone would mostly wait for itself. `quarters` gets what their
// squares add up to, in units of their scales.
#define EACH _Pragma("GCC unroll 4") for (std::size_t k = 0; k < 4; ++k)
template <Way kWay, bool kLines>
MOESCOPE_INLINE void quantize_quarter(const LaneRounding& f, Floats clip_limit, const float* x, const float* next,
                                      float* out, const std::uint32_t* column_keys, RowKey key, const float* encodes,
                                      const float* decodes, const Target& target, float* quarters, Sums& sums) {
  Floats values[4], encode[4], decode[4], x2[4];
  Quantized v[4];
  EACH {
    __builtin_prefetch(next + k * kWidth);
    values[k] = load(x + k * kWidth);
    encode[k] = splat_at(encodes + k), decode[k] = splat_at(decodes + k);
    v[k].magnitude = magnitude_bits(values[k]);
  }
  EACH v[k].y = quotient((Floats)v[k].magnitude, decode[k], encode[k]);
  EACH {
    if constexpr (is_stochastic(kWay))
      v[k].r = rounded<kWay>(f, v[k].y, draws_of<kWay>(key, column_keys + k * kWidth));
    else
      v[k].r = round_nearest(f, v[k].y);  // to the largest at most, as long as amax_fits
  }
  EACH v[k].value = decoded(f, v[k].r, decode[k], values[k]);
  EACH {
    write_vector<kLines>(target, out + k * kWidth, v[k].value, kWidth);
  }
  EACH {
    const Floats error = values[k] - v[k].value;
    x2[k] = v[k].y * v[k].y;
    sums.q2 += v[k].value * v[k].value;
    sums.err2 += error * error;
  }
  EACH add_counts<kWay>(v[k], clip_limit, sums.counts);
  store(quarters, joined_quarters<float>(x2, kSum));
}
#undef EACH

MOESCOPE_INLINE void add_group(const Group& g, const float* quarters, Sums& sums) {
  const Floats x2 = joined_sixteen(quarters, kSum), decode = load(g.decode), scaled = load(g.scaled_amax);
  sums.x2 += x2 * decode * decode;
  const Floats largest = splat(std::numeric_limits<float>::max());
  sums.crest += square_root(scaled * scaled * static_cast<float>(kWidth) / (x2 > 0 ? x2 : largest));
}

// The scales of a group take long to find, one operation waiting for the other: while one group is quantized, those of
// the next are found, from largest magnitudes found one group before.
template <Way kWay, bool kLines>
MOESCOPE_INLINE void quantize_groups(const Scaling& s, const Tile& tile, const Target& to, std::int32_t* codes,
                                     Sums& total) {
  const Tile t = tile;  // copies, which no writing changes
  const Target target = to;
  const LaneRounding f = lane_rounding(s.rounding);
  const Floats clip_limit = splat(s.clip_limit);
  const float tensor_scale = s.tensor_scale;
  const std::size_t groups = t.rows * t.cols / kNvfp4Group;
  Sums sums;
  Group scales[2];
  alignas(64) std::int32_t amax[4 * kWidth];
  alignas(64) float x2[4 * kWidth];
  Place at, ahead;
  const auto find_amax = [&](std::size_t quarter) __attribute__((always_inline)) {
    find_quarter_amax(t.x + ahead.row * t.stride + ahead.col + quarter * kQuarter, amax + quarter * kWidth);
  };
  for (std::size_t quarter = 0; quarter < 4; ++quarter) find_amax(quarter);
  find_group_scales(amax, tensor_scale, clip_limit, scales[0], codes, sums);
  if (groups > 1) ahead.advance(t);
  for (std::size_t quarter = 0; quarter < 4; ++quarter) find_amax(quarter);
  for (std::size_t i = 0; i < groups; ++i, at.advance(t)) {
    const Group& g = scales[i % 2];
    if (i + 1 < groups)
      find_group_scales(amax, tensor_scale, clip_limit, scales[(i + 1) % 2], codes + (i + 1) * kWidth, sums);
    if (i + 2 < groups) ahead.advance(t);
    const RowKey key = row_key_of<kWay>(t, at.row);
    const float* x = t.x + at.row * t.stride + at.col;
    const float* next = t.next + at.row * t.next_stride + at.col;
    float* out = t.out + at.row * t.out_stride + at.col;
#pragma GCC unroll 1
    for (std::size_t quarter = 0; quarter < 4; ++quarter) {
      find_amax(quarter);
      const std::size_t c = quarter * kQuarter;
      quantize_quarter<kWay, kLines>(f, clip_limit, x + c, next + c, out + c, t.column_keys + at.col + c, key,
                                     g.encode + 4 * quarter, g.decode + 4 * quarter, target, x2 + quarter * kWidth,
                                     sums);
    }
    add_group(g, x2, sums);
  }
  total = sums;
}

#define MOESCOPE_GROUPS(name, way, lines)                                                                           \
  MOESCOPE_SIMD void name(const Scaling& s, const Tile& t, const Target& target, std::int32_t* codes, Sums& sums) { \
    quantize_groups<way, lines>(s, t, target, codes, sums);                                                         \
  }
MOESCOPE_GROUPS(quantize_nearest, Way::divided, false)
MOESCOPE_GROUPS(quantize_nearest_lines, Way::divided, true)
MOESCOPE_GROUPS(quantize_stochastic, Way::stochastic_divided, false)
MOESCOPE_GROUPS(quantize_stochastic_lines, Way::stochastic_divided, true)
#undef MOESCOPE_GROUPS

// A block's scale comes out a sixteenth too small at most, unless it is held under the largest there is: then values
// exceed 6, but not 7, from where on they would be rounded to what E2M1 has not.
bool amax_fits(const Scaling& s, std::int32_t amax_bits) {
  return std::bit_cast<float>(amax_bits) <= s.tensor_scale * (448.0f * 6.0f * 1.01f);
}

}  // namespace

// Scales lie between 2^-6 and 448 times the tensor's, and values and errors close to their blocks' scales matter.
bool nvfp4_sums_fit(const Scaling& s) {
  return s.tensor_scale > 0x1p-40f && s.tensor_scale < 0x1p40f;
}

bool quantize_nvfp4_rows(const Scaling& s, const Tile& t, const Target& target, ScaleCounts& counts, QuantSums& total) {
  Sums sums;
  alignas(64) std::int32_t codes[kScales];
  const bool stochastic = s.format.rounding == Rounding::stochastic;
  if (target.lines)
    (stochastic ? quantize_stochastic_lines : quantize_nearest_lines)(s, t, target, codes, sums);
  else
    (stochastic ? quantize_stochastic : quantize_nearest)(s, t, target, codes, sums);
  Totals totals;
  totals.x2 = sum_of<float>(sums.x2), totals.q2 = sum_of<float>(sums.q2), totals.err2 = sum_of<float>(sums.err2);
  add_counts(sums.counts, totals);
  totals.find_xq();
  const std::int32_t top_amax = max_of<std::int32_t>(sums.top_amax);
  if (!amax_fits(s, top_amax) || !sums_hold(top_amax, 0, totals)) return false;
  add_values(totals, 1, t.rows * t.cols, total);
  total.blocks += t.rows * t.cols / kWidth;
  total.crest += sum_of<float>(sums.crest);
  total.crest_blocks += sum_of<std::uint32_t>(sums.nonzero_blocks);
  total.clipped_blocks += sum_of<std::uint32_t>(sums.clipped_blocks);
  total.amax = std::max(total.amax, std::bit_cast<float>(top_amax));
  counts.add(codes, t.rows * t.cols / kWidth);
  return true;
}

}  // namespace moescope
