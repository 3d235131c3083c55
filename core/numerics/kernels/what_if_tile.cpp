#include "core/numerics/kernels/what_if_tile.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/numerics/kernels/what_if_tile.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/numerics/kernels/element_lanes.h"
#include "core/numerics/scale_rules.h"

// Apart from the rounding, the functions below are loops over sixteen lanes, which the compiler vectorises.
HWY_BEFORE_NAMESPACE();
namespace moescope {
namespace HWY_NAMESPACE {
namespace {

constexpr int kMinBlock = kWhatIfBlocks.front();
constexpr int kStretch = 64;  // limits the length of float32 sums
constexpr std::int32_t kInfinityBits = 0x7F800000;

// Sums and counts of a block at one scale; squares are of values in units of that scale.
struct ScaledLanes {
  alignas(64) std::array<double, kWhatIfLanes> err2{}, q2{};
  alignas(64) std::array<std::int32_t, kWhatIfLanes> zeros{}, clipped{};
};

// Sums of one choice of format and rule over the blocks of a tile.
struct RuleLanes {
  alignas(64) std::array<double, kWhatIfLanes> err2{}, q2{};
  alignas(64) std::array<std::int64_t, kWhatIfLanes> underflow{}, clipped{}, clipped_blocks{};
};

void measure_blocks(WhatIfTile& tile) {
  for (int b = 0; b * kMinBlock < tile.depth; ++b) {
    WhatIfBlock& block = tile.blocks[0][b] = {};
    block.depth = std::min(kMinBlock, tile.depth - b * kMinBlock);
    for (int d = 0; d < block.depth; ++d) {
      const float* x = &tile.x[(b * kMinBlock + d) * kWhatIfLanes];
      for (int l = 0; l < kWhatIfLanes; ++l) {
        block.amax_bits[l] = std::max(block.amax_bits[l], std::bit_cast<std::int32_t>(x[l]) & 0x7FFFFFFF);
        block.x2[l] += static_cast<double>(x[l]) * x[l];
        block.nonzero[l] += x[l] != 0;
      }
    }
  }
  std::int32_t finite = 0;
  for (int i = 0; i < tile.depth * kWhatIfLanes; ++i) {
    const std::int32_t bits = std::bit_cast<std::int32_t>(tile.x[i]) & 0x7FFFFFFF;
    finite = std::max(finite, bits < kInfinityBits ? bits : 0);
  }
  tile.finite_amax = std::bit_cast<float>(finite);
}

// Computes the statistics of each larger block from those of its two halves.
void combine_blocks(WhatIfTile& tile) {
  for (int level = 1; level < kWhatIfLevels; ++level) {
    const int count = (tile.depth + kWhatIfBlocks[level] - 1) / kWhatIfBlocks[level];
    for (int b = 0; b < count; ++b) {
      WhatIfBlock& block = tile.blocks[level][b];
      block = tile.blocks[level - 1][2 * b];
      if (2 * b * kWhatIfBlocks[level - 1] + kWhatIfBlocks[level - 1] >= tile.depth) continue;
      const WhatIfBlock& second_child = tile.blocks[level - 1][2 * b + 1];
      block.depth += second_child.depth;
      for (int l = 0; l < kWhatIfLanes; ++l) {
        block.amax_bits[l] = std::max(block.amax_bits[l], second_child.amax_bits[l]);
        block.x2[l] += second_child.x2[l];
        block.nonzero[l] += second_child.nonzero[l];
      }
    }
  }
}

// 2^(127 - code), as decode_e8m0(254 - code).
HWY_INLINE float inverse_scale(std::int32_t code) {
  return std::bit_cast<float>(code == 254 ? 0x00400000 : (254 - code) << 23);
}

// Adds up squares of values in units of the scale, so that the squares of 1e-30 and of 1e30 stay within float32. |y| is
// always below 2^(emax + 1), because the scale is at least 2^(exponent of amax - emax).
HWY_INLINE void scan_block(const ElementLanes& f, const float* x, int depth, const float* inverse_scales,
                           ScaledLanes& sums) {
  const Floats inverse = load(inverse_scales), top = bits_as<float>(f.max);
  Words nonzero = zero<std::uint32_t>();
  Ints clipped = zero<std::int32_t>();
  for (int begin = 0; begin < depth; begin += kStretch) {
    const int end = std::min(depth, begin + kStretch);
    Floats err2 = zero<float>(), q2 = err2;
    for (int d = begin; d < end; ++d) {
      const Floats y = bits_as<float>(magnitude_bits(load(x + d * kWhatIfLanes) * inverse));
      const Floats q = rounded_to_nearest(f, y), error = y - q;
      err2 += error * error;
      q2 += q * q;
      nonzero += smaller(bits_as<std::uint32_t>(q), splat(1u));
      clipped += if_less(bits_as<std::int32_t>(top), bits_as<std::int32_t>(y), splat(1), splat(0));
    }
    alignas(64) float lane_err2[kWhatIfLanes], lane_q2[kWhatIfLanes];
    store(lane_err2, err2);
    store(lane_q2, q2);
    for (int l = 0; l < kWhatIfLanes; ++l) {
      sums.err2[l] += lane_err2[l];
      sums.q2[l] += lane_q2[l];
    }
  }
  store(sums.zeros.data(), splat(depth) - bits_as<std::int32_t>(nonzero));
  store(sums.clipped.data(), clipped);
}

using Codes = std::array<std::int32_t, kWhatIfLanes>;

// Computes the codes for every rule, in the order of the enumeration.
HWY_INLINE void scale_codes(ElementFormat format, const std::array<std::int32_t, kWhatIfLanes>& amax_bits,
                            std::array<Codes, kWhatIfRules>& codes) {
  for (int r = 0; r < kWhatIfRules; ++r) {
    const E8m0Rule rule = e8m0_rule(static_cast<ScaleRule>(r), format);
    for (int l = 0; l < kWhatIfLanes; ++l) codes[r][l] = e8m0_code(rule, amax_bits[l]);
  }
}

HWY_INLINE void add_rule(const WhatIfBlock& block, const Codes& code, const Codes& low, const ScaledLanes& at_low,
                         const ScaledLanes& at_high, RuleLanes& sums) {
  for (int l = 0; l < kWhatIfLanes; ++l) {
    const bool counts = code[l] != 255, is_low = code[l] == low[l];
    const double scale2 = std::bit_cast<double>(static_cast<std::int64_t>(1023 + 2 * (code[l] - 127)) << 52);
    const double err2 = (is_low ? at_low.err2[l] : at_high.err2[l]) * scale2;
    const double q2 = (is_low ? at_low.q2[l] : at_high.q2[l]) * scale2;
    const std::int32_t zeros = is_low ? at_low.zeros[l] : at_high.zeros[l];
    const std::int32_t clipped = is_low ? at_low.clipped[l] : at_high.clipped[l];
    sums.err2[l] += counts ? err2 : 0;
    sums.q2[l] += counts ? q2 : 0;
    sums.underflow[l] += counts ? zeros - (block.depth - block.nonzero[l]) : 0;
    sums.clipped[l] += counts ? clipped : 0;
    sums.clipped_blocks[l] += counts && clipped > 0;
  }
}

double crest_of(const WhatIfBlock& block, int lane) {
  const double amax = std::bit_cast<float>(block.amax_bits[lane]);
  return amax / std::sqrt(block.x2[lane] / block.depth);
}

// Returns the sums that all formats and rules share at one block size, without regard to scales that overflow.
QuantSums shared_sums(const WhatIfTile& tile, int level) {
  QuantSums sums;
  sums.amax = tile.finite_amax;
  for (int b = 0; b * kWhatIfBlocks[level] < tile.depth; ++b) {
    const WhatIfBlock& block = tile.blocks[level][b];
    for (int l = 0; l < tile.lanes; ++l) {
      ++sums.blocks;
      sums.elements += block.depth;
      sums.nonzero += block.nonzero[l];
      if (block.amax_bits[l] >= kInfinityBits) continue;
      sums.x2 += block.x2[l];
      if (block.amax_bits[l] == 0) continue;
      sums.crest += crest_of(block, l);
      ++sums.crest_blocks;
    }
  }
  return sums;
}

// Takes a block at the very top of float32 out of the sums. EVEN, and RCEIL in INT8, have no scale for it, so it counts
// as a NaN block.
void drop_overflowed(const WhatIfBlock& block, int lane, QuantSums& sums) {
  sums.x2 -= block.x2[lane];
  sums.crest -= crest_of(block, lane);
  --sums.crest_blocks;
}

void add_shared(const QuantSums& shared, QuantSums& sums) {
  sums.amax = std::max(sums.amax, shared.amax);
  sums.x2 += shared.x2;
  sums.elements += shared.elements;
  sums.nonzero += shared.nonzero;
  sums.blocks += shared.blocks;
  sums.crest += shared.crest;
  sums.crest_blocks += shared.crest_blocks;
}

void add_lanes(const RuleLanes& lanes, int count, QuantSums& sums) {
  for (int l = 0; l < count; ++l) {
    sums.err2 += lanes.err2[l];
    sums.q2 += lanes.q2[l];
    sums.underflow += lanes.underflow[l];
    sums.clipped += lanes.clipped[l];
    sums.clipped_blocks += lanes.clipped_blocks[l];
  }
}

// Adds one format at one block size; `rows` are its four rules.
void add_format(const WhatIfTile& tile, int level, ElementFormat format, WhatIfRow* rows) {
  const ElementLanes element = element_lanes(rounding_of(format));
  std::array<RuleLanes, kWhatIfRules> totals{};
  for (int b = 0; b * kWhatIfBlocks[level] < tile.depth; ++b) {
    const WhatIfBlock& block = tile.blocks[level][b];
    std::array<Codes, kWhatIfRules> codes;
    scale_codes(format, block.amax_bits, codes);
    Codes low;
    alignas(64) std::array<float, kWhatIfLanes> inverse_low, inverse_high;
    for (int l = 0; l < kWhatIfLanes; ++l) {
      low[l] = std::min(codes[0][l], 254);
      inverse_low[l] = inverse_scale(low[l]);
      inverse_high[l] = inverse_scale(std::min(low[l] + 1, 254));
    }
    ScaledLanes at_low, at_high;
    const float* x = &tile.x[b * kWhatIfBlocks[level] * kWhatIfLanes];
    scan_block(element, x, block.depth, inverse_low.data(), at_low);
    scan_block(element, x, block.depth, inverse_high.data(), at_high);
    for (int rule = 0; rule < kWhatIfRules; ++rule) {
      add_rule(block, codes[rule], low, at_low, at_high, totals[rule]);
      QuantSums& sums = rows[rule].sums;
      for (int l = 0; l < tile.lanes; ++l) {
        ++sums.e8m0_blocks[codes[rule][l]];
        if (codes[rule][l] == 255 && block.amax_bits[l] < kInfinityBits) drop_overflowed(block, l, sums);
      }
    }
  }
  for (int rule = 0; rule < kWhatIfRules; ++rule) add_lanes(totals[rule], tile.lanes, rows[rule].sums);
}

void add_whole_tile(WhatIfTile& tile, WhatIfRow* rows_of_axis) {
  measure_blocks(tile);
  combine_blocks(tile);
  for (int level = 0; level < kWhatIfLevels; ++level) {
    const QuantSums shared = shared_sums(tile, level);
    for (int format = 0; format < kNumElementFormats; ++format) {
      WhatIfRow* rows = rows_of_axis + (level * kNumElementFormats + format) * kWhatIfRules;
      for (int rule = 0; rule < kWhatIfRules; ++rule) add_shared(shared, rows[rule].sums);
      add_format(tile, level, static_cast<ElementFormat>(format), rows);
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace moescope
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moescope {

HWY_EXPORT(add_whole_tile);

void add_tile(WhatIfTile& tile, WhatIfRow* rows_of_axis) {
  HWY_DYNAMIC_DISPATCH(add_whole_tile)(tile, rows_of_axis);
}

}  // namespace moescope
#endif
