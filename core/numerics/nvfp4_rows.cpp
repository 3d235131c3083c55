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

// Sixteen blocks: their scales, and the largest magnitudes that they come from.
struct Group {
  alignas(64) std::int32_t amax_bits[kWidth];
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

// Scales of a group on their way from `quarters`, a step for each quarter of another group that is quantized meanwhile.
struct ScalesToBe {
  Ints amax;
  Floats decode, encode;
};
template <std::size_t kStep>
MOESCOPE_INLINE void find_scales(const std::int32_t* quarters, float tensor_scale, ScalesToBe& s, Group& g,
                                 std::int32_t* codes) {
  if constexpr (kStep == 0) s.amax = joined_sixteen(quarters, kLarger), s.decode = (Floats)s.amax / 6.0f;
  if constexpr (kStep == 1) s.decode = nvfp4_decode_of_sixth(s.decode, tensor_scale);
  if constexpr (kStep == 2) s.encode = 1.0f / s.decode;
  if constexpr (kStep == 3) {
    store(g.amax_bits, s.amax);
    store(g.encode, s.encode);
    store(g.decode, s.decode);
    store(g.scaled_amax, quotient((Floats)s.amax, s.decode, s.encode));
    store(codes, (Ints)s.decode >> 23 & 255);
  }
}

// Figures of a group's blocks, of which `quarters` holds the squares; in as many steps.
template <std::size_t kStep>
MOESCOPE_INLINE void add_group(const Group& g, const float* quarters, Floats clip_limit, Floats& crest, Sums& sums) {
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
    __builtin_prefetch(next + k * kWidth, 0, kSecondCache);
    values[k] = load(x + k * kWidth);
    encode[k] = splat_at<kLines>(encodes + k), decode[k] = splat_at<kLines>(decodes + k);
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

// What is found for a group takes long, one operation waiting for the other. While one group is quantized, the scales
// of the next are found, from largest magnitudes found one group before, and the figures of the last one are added.
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
  Group scales[2] = {};
  ScalesToBe coming;
  Floats crest;
  alignas(64) std::int32_t amax[4 * kWidth];
  alignas(64) float x2[4 * kWidth] = {};
  Place at, ahead;
  const auto find_amax = [&](std::size_t quarter) __attribute__((always_inline)) {
    find_quarter_amax(t.x + ahead.row * t.stride + ahead.col + quarter * kQuarter, amax + quarter * kWidth);
  };
  const auto for_each_quarter = [](const auto& body) __attribute__((always_inline)) {
    body.template operator()<0>(), body.template operator()<1>();
    body.template operator()<2>(), body.template operator()<3>();
  };
  for_each_quarter([&]<std::size_t kIndex>() __attribute__((always_inline)) { find_amax(kIndex); });
  for_each_quarter([&]<std::size_t kStep>() __attribute__((always_inline)) {
    find_scales<kStep>(amax, tensor_scale, coming, scales[0], codes);
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
      find_scales<kIndex>(amax, tensor_scale, coming, other, next_codes);
      find_amax(kIndex);
      constexpr std::size_t c = kIndex * kQuarter;
      quantize_quarter<kWay, kLines>(f, clip_limit, x + c, next + c, out + c, t.column_keys + at.col + c, key,
                                     g.encode + 4 * kIndex, g.decode + 4 * kIndex, target, x2 + kIndex * kWidth, sums);
    });
  }
  for_each_quarter([&]<std::size_t kStep>() __attribute__((always_inline)) {
    add_group<kStep>(scales[(groups - 1) % 2], x2, clip_limit, crest, sums);
  });
  total = sums;
}

#define MOESCOPE_GROUPS(simd, name, way, lines)                                                            \
  simd void name(const Scaling& s, const Tile& t, const Target& target, std::int32_t* codes, Sums& sums) { \
    quantize_groups<way, lines>(s, t, target, codes, sums);                                                \
  }
MOESCOPE_GROUPS(MOESCOPE_SIMD, quantize_nearest, Way::divided, false)
MOESCOPE_GROUPS(MOESCOPE_SIMD_LINES, quantize_nearest_lines, Way::divided, true)
MOESCOPE_GROUPS(MOESCOPE_SIMD, quantize_stochastic, Way::stochastic_divided, false)
MOESCOPE_GROUPS(MOESCOPE_SIMD_LINES, quantize_stochastic_lines, Way::stochastic_divided, true)
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
