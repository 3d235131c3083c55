#include "core/numerics/kernels/operand_kernels.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "core/numerics/kernels/careful_kernels.h"
#include "core/numerics/kernels/column_kernels.h"
#include "core/numerics/kernels/element_lanes.h"
#include "core/numerics/kernels/nvfp4_rows.h"
#include "core/numerics/kernels/row_kernels.h"
#include "core/numerics/kernels/simd.h"

namespace moescope {
namespace {

constexpr std::size_t kWidth = kLanes<float>;
constexpr std::size_t kBatchElements = 4096;  // a batch is read twice and stays in the first cache
constexpr std::size_t kAreaCols = 1024;

std::size_t padded(std::size_t count) {
  return (count + kWidth - 1) / kWidth * kWidth;
}

// At most kScales blocks.
void quantize_row_batch(const Scaling& s, const Tile& t, std::size_t width, const Target& target, ScaleCounts& counts,
                        QuantSums* sums) {
  Batch b;
  const std::size_t per_row = (t.cols + width - 1) / width;
  b.count = t.rows * per_row;
  find_row_amax(t, width, b.scales.amax_bits.data());
  find_batch_scales(s, b);
  Totals totals;
  rows_function(s.format, b.clipped_blocks > 0, sums, target.lines)(s, t, width, target, b, totals);
  if (!sums) return;
  add_x2(b, b.count, totals);
  if (sums_hold(b, totals)) {
    add_values(totals, b.unit2, t.rows * t.cols, *sums);
    add_blocks(b, per_row, width, t.cols - (per_row - 1) * width, *sums);
    return counts.add(b.scales.code.data(), b.count);
  }
  for (std::size_t j = 0; j < b.count; ++j)
    quantize_carefully(s, part_of(t, j / per_row, j % per_row * width, 1, width), b, j, *sums);
}

bool column_sums_hold(const Scaling& s, Batch& b, Totals& totals) {
  add_x2(b, b.count, totals);
  return (s.format.scheme != QuantScheme::nvfp4 || nvfp4_sums_fit(s)) && sums_hold(b, totals);
}

// At most kTileCols columns, all blocks of a batch whose values have been quantized.
void add_columns(const Scaling& s, const Tile& t, Batch& b, Totals& totals, ScaleCounts& counts, QuantSums& sums) {
  if (column_sums_hold(s, b, totals)) {
    add_values(totals, b.unit2, t.rows * t.cols, sums);
    add_blocks(b, 1, t.rows, t.rows, sums);
    return counts.add(b.scales.code.data(), b.count);
  }
  for (std::size_t c = 0; c < t.cols; ++c) quantize_carefully(s, part_of(t, 0, c, t.rows, 1), b, c, sums);
}

void quantize_column_batch(const Scaling& s, const Tile& t, const Target& target, ScaleCounts& counts,
                           QuantSums* sums) {
  Batch b;
  b.count = t.cols;
  find_column_amax(t, b.scales.amax_bits.data());
  find_batch_scales(s, b);
  Totals totals;
  columns_function(s.format, b.clipped_blocks > 0, sums, target.lines)(s, t, target, b, totals);
  if (sums) add_columns(s, t, b, totals, counts, *sums);
}

MOESCOPE_SIMD std::int32_t row_amax_bits(const float* x, std::size_t count, std::int32_t known) {
  Ints top[4] = {Ints{} + known};
  std::size_t i = 0;
  for (; i + 4 * kWidth <= count; i += 4 * kWidth)
#pragma GCC unroll 4
    for (std::size_t k = 0; k < 4; ++k) {
      __builtin_prefetch(x + i + k * kWidth + kAmaxAhead, 0, kSecondCache);
      top[k] = larger(top[k], magnitude_bits(load(x + i + k * kWidth)));
    }
  for (; i < count; i += kWidth) {
    const std::size_t lanes = std::min(kWidth, count - i);
    top[0] = larger(top[0], magnitude_bits(load_first(x + i, static_cast<int>(lanes))));
  }
  return max_of<std::int32_t>(larger(larger(top[0], top[1]), larger(top[2], top[3])));
}

}  // namespace

float tile_amax(const Tile& t) {
  std::int32_t top = 0;
  for_each_stretch_from_end(t.rows, t.cols, [&](std::size_t first, std::size_t count) {
    for (std::size_t r = first; r < first + count; ++r)
      for (std::size_t c = 0; c < t.cols; c += kPage) {
        const float* x = t.x + r * t.stride + c;
        if (t.large) __builtin_prefetch(x + kPagesAhead * kPage);  // its address translated meanwhile
        top = row_amax_bits(x, std::min(kPage, t.cols - c), top);
      }
  });
  return std::bit_cast<float>(top);
}

void quantize_row_blocks(const Scaling& s, const Tile& t, std::size_t width, QuantSums* sums) {
  width = std::min(width, t.cols);
  if (width > kBatchElements)
    return for_each_part(t, 1, width, [&](const Tile& row) { quantize_area(s, row, tile_amax(row), sums); });
  const std::size_t blocks = std::min(kScales, kBatchElements / padded(width));
  const std::size_t cols = std::min(t.cols, blocks * width), per_row = (cols + width - 1) / width;
  Target target = target_of(t);
  target.bypass &= width % kWidth == 0, target.lines &= width % kWidth == 0;
  ScaleCounts counts;
  const auto by_batch = [&](const Tile& part) { quantize_row_batch(s, part, width, target, counts, sums); };
  const bool by_group = sums && s.format.scheme == QuantScheme::nvfp4 && nvfp4_sums_fit(s);
  const std::size_t grouped = by_group ? t.cols / kNvfp4Group * kNvfp4Group : 0;
  if (grouped) {
    const std::size_t part_cols = std::min(grouped, kBatchElements);
    for_each_part_ahead(part_of(t, 0, 0, t.rows, grouped), kBatchElements / part_cols, part_cols,
                        [&](const Tile& part) {
                          if (!quantize_nvfp4_rows(s, part, target, counts, *sums)) by_batch(part);
                        });
  }
  if (grouped < t.cols) for_each_part_ahead(part_of(t, 0, grouped, t.rows, t.cols), blocks / per_row, cols, by_batch);
  if (sums) counts.add_to(*sums);
}

void quantize_column_blocks(const Scaling& s, const Tile& t, std::size_t depth, QuantSums* sums) {
  const Target target = target_of(t);
  ScaleCounts counts;
  if (std::min(depth, t.rows) > kTallRows)
    for_each_part(t, depth, t.cols, [&](const Tile& part) {
      TallColumns columns(s, part.cols);
      raise_column_amax(part, columns.amax_bits());
      columns.find_scales();
      for_each_part_ahead(part, kTileRows, kTileCols, [&](const Tile& tile) {
        columns.quantize(tile, tile.key.first_col - part.key.first_col, sums != nullptr);
      });
      if (sums) columns.add_to(part, *sums);
    });
  else
    for_each_part_ahead(t, depth, kTileCols,
                        [&](const Tile& part) { quantize_column_batch(s, part, target, counts, sums); });
  if (sums) counts.add_to(*sums);
}

TallColumns::TallColumns(const Scaling& s, std::size_t cols)
    : s_(s),
      cols_(cols),
      amax_bits_(padded(cols)),
      batches_((cols + kTileCols - 1) / kTileCols),
      totals_(batches_.size()) {}

void TallColumns::find_scales() {
  for (std::size_t i = 0; i < batches_.size(); ++i) {
    Batch& b = batches_[i];
    b.count = std::min(kTileCols, cols_ - i * kTileCols);
    std::copy_n(amax_bits_.begin() + static_cast<std::ptrdiff_t>(i * kTileCols), b.count, b.scales.amax_bits.begin());
    find_batch_scales(s_, b);
  }
}

void TallColumns::quantize(const Tile& t, std::size_t col, bool sums) {
  Batch& b = batches_[col / kTileCols];
  const Target target = target_of(t);
  columns_function(s_.format, b.clipped_blocks > 0, sums, target.lines)(s_, t, target, b, totals_[col / kTileCols]);
}

bool TallColumns::sums_hold() {
  for (std::size_t i = 0; i < batches_.size(); ++i)
    if (!column_sums_hold(s_, batches_[i], totals_[i])) return false;
  return true;
}

void TallColumns::add_to(const Tile& t, QuantSums& sums) {
  ScaleCounts counts;
  std::size_t i = 0;
  for_each_part(t, t.rows, kTileCols, [&](const Tile& part) {
    add_columns(s_, part, batches_[i], totals_[i], counts, sums);
    ++i;
  });
  counts.add_to(sums);
}

void quantize_area(const Scaling& s, const Tile& t, float amax, QuantSums* sums) {
  const std::size_t cols = std::min(t.cols, kAreaCols), rows = kBatchElements / padded(cols);
  Batch b;
  b.count = std::min(rows, kScales);
  std::fill_n(b.scales.amax_bits.begin(), b.count, std::bit_cast<std::int32_t>(amax));
  find_batch_scales(s, b);
  const Target target = target_of(t);
  const QuantizeRows quantize = rows_function(s.format, b.clipped_blocks > 0, sums, target.lines);
  double x2 = 0;
  for_each_part_ahead(t, b.count, cols, [&](const Tile& part) {
    Totals totals;
    quantize(s, part, cols, target, b, totals);
    if (!sums) return;
    if (b.scales.code[0] == 255) return spoil(part, *sums);
    add_x2(b, part.rows, totals);
    const bool wide = !sums_hold(b, totals);
    if (wide) totals = wide_totals(s, part, b.scales.encode[0], b.scales.decode[0]);
    add_values(totals, wide ? 1 : b.unit2, part.rows * part.cols, *sums);
    x2 += totals.x2 * (wide ? 1 : b.unit2);
  });
  if (sums) add_block(s, b, 0, t.rows * t.cols, x2, *sums);
}

}  // namespace moescope
