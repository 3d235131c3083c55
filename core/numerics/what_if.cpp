#include "core/numerics/what_if.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>

#include "core/numerics/kernels/float_rounding.h"
#include "core/numerics/kernels/simd.h"
#include "core/numerics/parallel.h"
#include "core/numerics/scale_rules.h"

namespace moescope {
namespace {

constexpr int kLanes = 16;
constexpr int kDepth = kWhatIfBlocks.back();  // of a tile: blocks of every size nest in it
constexpr int kLeast = kWhatIfBlocks.front();
constexpr int kLevels = static_cast<int>(kWhatIfBlocks.size());
constexpr int kStretch = 64;  // float32 sums are no longer than this
constexpr int kChunks = 16;   // units of parallel work; fixed, so that sums do not depend on the thread count
constexpr std::int32_t kInfinityBits = 0x7F800000;

typedef float Floats __attribute__((vector_size(4 * kLanes)));
typedef std::int32_t Ints __attribute__((vector_size(4 * kLanes)));

// What a block is before any format is chosen, lane by lane.
struct BlockLanes {
  alignas(64) std::array<std::int32_t, kLanes> amax_bits{};  // NaN and infinity sort above all numbers
  alignas(64) std::array<double, kLanes> x2{};
  alignas(64) std::array<std::int32_t, kLanes> nonzero{};
  int depth = 0;
};

// A stretch of up to kDepth values of up to kLanes rows (or columns): value d of lane l at x[d * kLanes + l].
struct Tile {
  alignas(64) std::array<float, kDepth * kLanes> x;
  std::array<std::array<BlockLanes, kDepth / kLeast>, kLevels> blocks;
  int depth = 0, lanes = 0;
  float finite_amax = 0;
};

// Sums of a block at one scale, in units of that scale.
struct ScaledLanes {
  alignas(64) std::array<double, kLanes> err2{}, q2{};
  alignas(64) std::array<std::int32_t, kLanes> zeros{}, clipped{};
};

// Sums of one choice of format and rule over the blocks of a tile.
struct RuleLanes {
  alignas(64) std::array<double, kLanes> err2{}, q2{};
  alignas(64) std::array<std::int64_t, kLanes> underflow{}, clipped{}, clipped_blocks{};
};

void load_tile(Tile& tile, const MatrixView& in, BlockAxis axis, std::size_t lane0, std::size_t depth0) {
  const bool along_rows = axis == BlockAxis::row;
  tile.lanes = static_cast<int>(std::min<std::size_t>(kLanes, (along_rows ? in.rows : in.cols) - lane0));
  tile.depth = static_cast<int>(std::min<std::size_t>(kDepth, (along_rows ? in.cols : in.rows) - depth0));
  if (tile.lanes < kLanes) tile.x.fill(0);
  if (along_rows) {
    for (int l = 0; l < tile.lanes; ++l) {
      const float* row = in.data + (lane0 + l) * in.stride + depth0;
      for (int d = 0; d < tile.depth; ++d) tile.x[d * kLanes + l] = row[d];
    }
    return;
  }
  for (int d = 0; d < tile.depth; ++d)
    std::memcpy(&tile.x[d * kLanes], in.data + (depth0 + d) * in.stride + lane0, tile.lanes * sizeof(float));
}

MOESCOPE_SIMD void measure_blocks(Tile& tile) {
  for (int b = 0; b * kLeast < tile.depth; ++b) {
    BlockLanes& block = tile.blocks[0][b] = {};
    block.depth = std::min(kLeast, tile.depth - b * kLeast);
    for (int d = 0; d < block.depth; ++d) {
      const float* x = &tile.x[(b * kLeast + d) * kLanes];
      for (int l = 0; l < kLanes; ++l) {
        block.amax_bits[l] = std::max(block.amax_bits[l], std::bit_cast<std::int32_t>(x[l]) & 0x7FFFFFFF);
        block.x2[l] += static_cast<double>(x[l]) * x[l];
        block.nonzero[l] += x[l] != 0;
      }
    }
  }
  std::int32_t finite = 0;
  for (int i = 0; i < tile.depth * kLanes; ++i) {
    const std::int32_t bits = std::bit_cast<std::int32_t>(tile.x[i]) & 0x7FFFFFFF;
    finite = std::max(finite, bits < kInfinityBits ? bits : 0);
  }
  tile.finite_amax = std::bit_cast<float>(finite);
}

// Each larger block from its two halves.
MOESCOPE_SIMD void combine_blocks(Tile& tile) {
  for (int level = 1; level < kLevels; ++level) {
    const int count = (tile.depth + kWhatIfBlocks[level] - 1) / kWhatIfBlocks[level];
    for (int b = 0; b < count; ++b) {
      BlockLanes& block = tile.blocks[level][b];
      block = tile.blocks[level - 1][2 * b];
      if (2 * b * kWhatIfBlocks[level - 1] + kWhatIfBlocks[level - 1] >= tile.depth) continue;
      const BlockLanes& half = tile.blocks[level - 1][2 * b + 1];
      block.depth += half.depth;
      for (int l = 0; l < kLanes; ++l) {
        block.amax_bits[l] = std::max(block.amax_bits[l], half.amax_bits[l]);
        block.x2[l] += half.x2[l];
        block.nonzero[l] += half.nonzero[l];
      }
    }
  }
}

// 2^(127 - code), as decode_e8m0(254 - code).
[[gnu::always_inline]] inline float inverse_scale(std::int32_t code) {
  return std::bit_cast<float>(code == 254 ? 0x00400000 : (254 - code) << 23);
}

// Squares are in units of the scale, so that 1e-30 and 1e30 stay within float32. |y| < 2^(emax + 1) always: the scale
// is at least 2^(exponent of amax - emax), so the clamp of round_magnitude has nothing to do.
[[gnu::always_inline]] inline void scan_block(const ElementRounding& f, const float* x, int depth,
                                              const std::array<float, kLanes>& inverse_lanes, ScaledLanes& sums) {
  Floats inverse;
  std::memcpy(&inverse, inverse_lanes.data(), sizeof inverse);
  const Floats top = Floats{} + f.max;
  const Ints least = Ints{} + f.min_normal_bits;
  Ints zeros{}, clipped{};
  for (int begin = 0; begin < depth; begin += kStretch) {
    const int end = std::min(depth, begin + kStretch);
    Floats err2{}, q2{};
    for (int d = begin; d < end; ++d) {
      Floats y;
      std::memcpy(&y, x + d * kLanes, sizeof y);
      y *= inverse;
      const Ints bits = (Ints)y & 0x7FFFFFFF;
      const Floats magnitude = (Floats)bits;
      const Ints exponent = bits & 0x7F800000;
      const Floats magic = (Floats)((exponent > least ? exponent : least) + f.magic_offset);
      const Floats rounded = (magnitude + magic) - magic;
      const Floats q = rounded < top ? rounded : top;
      const Floats error = magnitude - q;
      err2 += error * error;
      q2 += q * q;
      zeros -= q == 0.0f;
      clipped -= magnitude > top;
    }
    for (int l = 0; l < kLanes; ++l) sums.err2[l] += err2[l], sums.q2[l] += q2[l];
  }
  std::memcpy(sums.zeros.data(), &zeros, sizeof zeros);
  std::memcpy(sums.clipped.data(), &clipped, sizeof clipped);
}

using Codes = std::array<std::int32_t, kLanes>;

// By every rule, in the order of the enumeration.
[[gnu::always_inline]] inline void scale_codes(ElementFormat element, const std::array<std::int32_t, kLanes>& amax_bits,
                                               std::array<Codes, kWhatIfRules>& codes) {
  for (int r = 0; r < kWhatIfRules; ++r) {
    const E8m0Rule rule = e8m0_rule(static_cast<ScaleRule>(r), element);
    for (int l = 0; l < kLanes; ++l) codes[r][l] = e8m0_code(rule, amax_bits[l]);
  }
}

[[gnu::always_inline]] inline void add_rule(const BlockLanes& block, const Codes& code, const Codes& low,
                                            const ScaledLanes& at_low, const ScaledLanes& at_high, RuleLanes& sums) {
  for (int l = 0; l < kLanes; ++l) {
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

double crest_of(const BlockLanes& block, int lane) {
  const double amax = std::bit_cast<float>(block.amax_bits[lane]);
  return amax / std::sqrt(block.x2[lane] / block.depth);
}

// What all formats and rules share at one block size: as if no scale overflowed.
QuantSums shared_sums(const Tile& tile, int level) {
  QuantSums sums;
  sums.amax = tile.finite_amax;
  for (int b = 0; b * kWhatIfBlocks[level] < tile.depth; ++b) {
    const BlockLanes& block = tile.blocks[level][b];
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

// EVEN, and RCEIL in INT8, run out of scales at the very top of float32: such a block counts as a NaN block.
void drop_overflowed(const BlockLanes& block, int lane, QuantSums& sums) {
  sums.x2 -= block.x2[lane];
  sums.crest -= crest_of(block, lane);
  --sums.crest_blocks;
}

void add_shared(const QuantSums& shared, QuantSums& sums) {
  sums.amax = std::max(sums.amax, shared.amax);
  sums.x2 += shared.x2;
  sums.elements += shared.elements, sums.nonzero += shared.nonzero, sums.blocks += shared.blocks;
  sums.crest += shared.crest, sums.crest_blocks += shared.crest_blocks;
}

void add_lanes(const RuleLanes& lanes, int count, QuantSums& sums) {
  for (int l = 0; l < count; ++l) {
    sums.err2 += lanes.err2[l];
    sums.q2 += lanes.q2[l];
    sums.underflow += static_cast<std::uint64_t>(lanes.underflow[l]);
    sums.clipped += static_cast<std::uint64_t>(lanes.clipped[l]);
    sums.clipped_blocks += static_cast<std::uint64_t>(lanes.clipped_blocks[l]);
  }
}

// One format at one block size; `rows` are its four rules.
MOESCOPE_SIMD void add_format(const Tile& tile, int level, ElementFormat format, WhatIfRow* rows) {
  const ElementRounding rounding = rounding_of(format);
  std::array<RuleLanes, kWhatIfRules> totals{};
  for (int b = 0; b * kWhatIfBlocks[level] < tile.depth; ++b) {
    const BlockLanes& block = tile.blocks[level][b];
    std::array<Codes, kWhatIfRules> codes;
    scale_codes(format, block.amax_bits, codes);
    Codes low;
    std::array<float, kLanes> inverse_low, inverse_high;
    for (int l = 0; l < kLanes; ++l) {
      low[l] = std::min(codes[0][l], 254);
      inverse_low[l] = inverse_scale(low[l]);
      inverse_high[l] = inverse_scale(std::min(low[l] + 1, 254));
    }
    ScaledLanes at_low, at_high;
    const float* x = &tile.x[b * kWhatIfBlocks[level] * kLanes];
    scan_block(rounding, x, block.depth, inverse_low, at_low);
    scan_block(rounding, x, block.depth, inverse_high, at_high);
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

void add_tile(const Tile& tile, WhatIfRow* rows_of_axis) {
  for (int level = 0; level < kLevels; ++level) {
    const QuantSums shared = shared_sums(tile, level);
    for (int format = 0; format < kNumElementFormats; ++format) {
      WhatIfRow* rows = rows_of_axis + (level * kNumElementFormats + format) * kWhatIfRules;
      for (int rule = 0; rule < kWhatIfRules; ++rule) add_shared(shared, rows[rule].sums);
      add_format(tile, level, static_cast<ElementFormat>(format), rows);
    }
  }
}

constexpr std::size_t kRowsPerAxis = static_cast<std::size_t>(kLevels) * kNumElementFormats * kWhatIfRules;

std::vector<WhatIfRow> empty_rows() {
  std::vector<WhatIfRow> rows;
  for (const BlockAxis axis : {BlockAxis::row, BlockAxis::column})
    for (const int block : kWhatIfBlocks)
      for (int format = 0; format < kNumElementFormats; ++format)
        for (int rule = 0; rule < kWhatIfRules; ++rule)
          rows.push_back(
              {mx_format(static_cast<ElementFormat>(format), static_cast<ScaleRule>(rule), block), axis, {}});
  return rows;
}

// A part of the matrix whose blocks end with it.
struct Stretch {
  MatrixView in;
  BlockAxis axis;
};

// Every kChunks-th tile of all stretches.
std::vector<WhatIfRow> chunk_rows(const std::vector<Stretch>& stretches, std::size_t chunk,
                                  const std::stop_token& stop) {
  std::vector<WhatIfRow> rows = empty_rows();
  const auto tile = std::make_unique<Tile>();
  std::size_t n = 0;
  for (const auto& [in, axis] : stretches) {
    const std::size_t lanes = axis == BlockAxis::row ? in.rows : in.cols;
    const std::size_t depth = axis == BlockAxis::row ? in.cols : in.rows;
    for (std::size_t depth0 = 0; depth0 < depth; depth0 += kDepth)
      for (std::size_t lane0 = 0; lane0 < lanes; lane0 += kLanes) {
        if (n++ % kChunks != chunk) continue;
        if (stop.stop_requested()) return {};
        load_tile(*tile, in, axis, lane0, depth0);
        measure_blocks(*tile);
        combine_blocks(*tile);
        add_tile(*tile, &rows[axis == BlockAxis::row ? 0 : kRowsPerAxis]);
      }
  }
  return rows;
}

std::vector<Stretch> stretches_of(const MatrixView& in, std::span<const std::size_t> row_groups) {
  std::vector<Stretch> stretches{{in, BlockAxis::row}};
  if (row_groups.empty()) stretches.push_back({in, BlockAxis::column});
  for (std::size_t g = 0; g + 1 < row_groups.size(); ++g)
    stretches.push_back({{in.data + row_groups[g] * in.stride, row_groups[g + 1] - row_groups[g], in.cols, in.stride},
                         BlockAxis::column});
  return stretches;
}

}  // namespace

std::vector<WhatIfRow> what_if(MatrixView in, std::stop_token stop, std::span<const std::size_t> row_groups) {
  const std::vector<Stretch> stretches = stretches_of(in, row_groups);
  std::array<std::vector<WhatIfRow>, kChunks> chunks;
  parallel_for(kChunks, [&](int chunk) {
    const auto index = static_cast<std::size_t>(chunk);
    chunks[index] = chunk_rows(stretches, index, stop);
  });
  if (stop.stop_requested()) return {};
  std::vector<WhatIfRow> rows = empty_rows();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    QuantSums& sums = rows[i].sums;
    for (const auto& chunk : chunks) sums.add(chunk[i].sums);
    sums.xq = (sums.x2 + sums.q2 - sums.err2) / 2;  // from (x - q)^2 = x^2 - 2 x q + q^2
  }
  return rows;
}

std::vector<WhatIfRow> what_if_schemes(MatrixView in, std::stop_token stop, std::span<const std::size_t> row_groups) {
  const std::array<std::size_t, 2> whole = {0, in.rows};
  if (row_groups.empty()) row_groups = whole;
  const std::array<OperandFormat, kWhatIfSchemes> formats = {kNvfp4Format, fp8_format(ScaleGranularity::block_1x128),
                                                             fp8_format(ScaleGranularity::row),
                                                             fp8_format(ScaleGranularity::tensor)};
  const auto out = std::make_unique_for_overwrite<float[]>(in.rows * in.cols);
  std::vector<WhatIfRow> rows;
  for (const BlockAxis axis : {BlockAxis::row, BlockAxis::column})
    for (const OperandFormat& format : formats) {
      if (stop.stop_requested()) return {};
      WhatIfRow& row = rows.emplace_back(WhatIfRow{format, axis, {}});
      for (std::size_t g = 0; g + 1 < row_groups.size(); ++g)
        quantize_operand(format,
                         {in.data + row_groups[g] * in.stride, row_groups[g + 1] - row_groups[g], in.cols, in.stride},
                         axis, {}, out.get(), in.cols, &row.sums);
    }
  return rows;
}

int what_if_index(const OperandFormat& format, BlockAxis axis) {
  const auto block = std::find(kWhatIfBlocks.begin(), kWhatIfBlocks.end(), format.block);
  if (block == kWhatIfBlocks.end()) return -1;
  const int level = static_cast<int>(block - kWhatIfBlocks.begin());
  return ((static_cast<int>(axis) * kLevels + level) * kNumElementFormats + static_cast<int>(format.element)) *
             kWhatIfRules +
         static_cast<int>(format.rule);
}

}  // namespace moescope
