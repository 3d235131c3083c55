#include "core/numerics/what_if.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "core/numerics/kernels/what_if_tile.h"
#include "core/numerics/scale_rules.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

constexpr int kChunks = 16;  // units of parallel work; fixed, so that sums do not depend on the number of threads

void load_tile(WhatIfTile& tile, const Matrix<const float>& in, BlockAxis axis, Index lane0, Index depth0) {
  const bool along_rows = axis == BlockAxis::row;
  tile.lanes = to_int(std::min<Index>(kWhatIfLanes, (along_rows ? in.rows : in.cols) - lane0));
  tile.depth = to_int(std::min<Index>(kWhatIfDepth, (along_rows ? in.cols : in.rows) - depth0));
  if (tile.lanes < kWhatIfLanes) tile.x.fill(0);
  if (along_rows) {
    for (int l = 0; l < tile.lanes; ++l) {
      const float* row = in.row(lane0 + l) + depth0;
      for (int d = 0; d < tile.depth; ++d) tile.x[d * kWhatIfLanes + l] = row[d];
    }
    return;
  }
  for (int d = 0; d < tile.depth; ++d)
    std::memcpy(&tile.x[d * kWhatIfLanes], in.row(depth0 + d) + lane0, tile.lanes * sizeof(float));
}

constexpr std::size_t kRowsPerAxis = static_cast<std::size_t>(kWhatIfLevels) * kNumElementFormats * kWhatIfRules;

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

// A part of the matrix; no block extends beyond it.
struct Stretch {
  Matrix<const float> in;
  BlockAxis axis;
};

// Adds up every kChunks-th tile of all stretches.
std::vector<WhatIfRow> chunk_rows(const std::vector<Stretch>& stretches, std::size_t chunk,
                                  const std::stop_token& stop) {
  std::vector<WhatIfRow> rows = empty_rows();
  const auto tile = std::make_unique<WhatIfTile>();
  std::size_t n = 0;
  for (const auto& [in, axis] : stretches) {
    const Index lanes = axis == BlockAxis::row ? in.rows : in.cols;
    const Index depth = axis == BlockAxis::row ? in.cols : in.rows;
    for (Index depth0 = 0; depth0 < depth; depth0 += kWhatIfDepth)
      for (Index lane0 = 0; lane0 < lanes; lane0 += kWhatIfLanes) {
        if (n++ % kChunks != chunk) continue;
        if (stop.stop_requested()) return {};
        load_tile(*tile, in, axis, lane0, depth0);
        add_tile(*tile, &rows[axis == BlockAxis::row ? 0 : kRowsPerAxis]);
      }
  }
  return rows;
}

std::vector<Stretch> stretches_of(const Matrix<const float>& in, std::span<const std::size_t> row_groups) {
  std::vector<Stretch> stretches{{in, BlockAxis::row}};
  if (row_groups.empty()) stretches.push_back({in, BlockAxis::column});
  for (std::size_t g = 0; g + 1 < row_groups.size(); ++g)
    stretches.push_back({in.row_block(row_groups[g], row_groups[g + 1] - row_groups[g]), BlockAxis::column});
  return stretches;
}

}  // namespace

std::vector<WhatIfRow> what_if(ConstMatrix<float> in, std::stop_token stop, std::span<const std::size_t> row_groups) {
  const std::vector<Stretch> stretches = stretches_of(in, row_groups);
  std::array<std::vector<WhatIfRow>, kChunks> chunks;
  parallel_for(kChunks, [&](int chunk) {
    const std::size_t index = chunk;
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

std::vector<WhatIfRow> what_if_schemes(ConstMatrix<float> in, std::stop_token stop,
                                       std::span<const std::size_t> row_groups) {
  const std::array<std::size_t, 2> whole = {0, static_cast<std::size_t>(in.rows)};
  if (row_groups.empty()) row_groups = whole;
  const std::array<OperandFormat, kWhatIfSchemes> formats = {kNvfp4Format, fp8_format(ScaleGranularity::block_1x128),
                                                             fp8_format(ScaleGranularity::row),
                                                             fp8_format(ScaleGranularity::tensor)};
  const auto out = std::make_unique_for_overwrite<float[]>(in.size());
  std::vector<WhatIfRow> rows;
  for (const BlockAxis axis : {BlockAxis::row, BlockAxis::column})
    for (const OperandFormat& format : formats) {
      if (stop.stop_requested()) return {};
      WhatIfRow& row = rows.emplace_back(WhatIfRow{format, axis, {}});
      for (std::size_t g = 0; g + 1 < row_groups.size(); ++g) {
        const Matrix<const float> group = in.row_block(row_groups[g], row_groups[g + 1] - row_groups[g]);
        quantize_operand({group, format, axis, {}, &row.sums}, {out.get(), group.rows, group.cols});
      }
    }
  return rows;
}

int what_if_index(const OperandFormat& format, BlockAxis axis) {
  const auto block = std::find(kWhatIfBlocks.begin(), kWhatIfBlocks.end(), format.block);
  if (block == kWhatIfBlocks.end()) return -1;
  const int level = to_int(block - kWhatIfBlocks.begin());
  return ((static_cast<int>(axis) * kWhatIfLevels + level) * kNumElementFormats + static_cast<int>(format.element)) *
             kWhatIfRules +
         static_cast<int>(format.rule);
}

}  // namespace moescope
