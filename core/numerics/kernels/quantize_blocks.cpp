#include "core/numerics/kernels/quantize_blocks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "core/numerics/kernels/convert.h"
#include "core/numerics/kernels/four_over_six.h"

namespace moescope {
namespace {

constexpr std::size_t kBatchElements = 4096;
constexpr std::size_t kAreaCols = 1024;
constexpr std::size_t kNvfp4Square = 16;
constexpr std::size_t kStretchRows = 128;  // of columns: sums in float32 are no longer

// What the values of blocks with finite scales add up to.
struct Totals {
  double x2 = 0, q2 = 0, xq = 0, err2 = 0;
  std::uint64_t nonzero = 0, underflow = 0, clipped = 0;
};

void add_totals(const Totals& t, std::size_t elements, QuantSums& sums) {
  sums.x2 += t.x2, sums.q2 += t.q2, sums.xq += t.xq, sums.err2 += t.err2;
  sums.elements += elements;
  sums.nonzero += t.nonzero, sums.underflow += t.underflow, sums.clipped += t.clipped;
}

// Blocks of each scale. Neighbours mostly have the same one, and adding to one counter waits for the addition before:
// they take turns at four.
class ScaleCounts {
 public:
  void add(const BlockBatch& b) {
    for (std::size_t i = 0; i < b.count; ++i) ++counts_[i % kTurns][static_cast<std::size_t>(b.code[i])];
    const bool zeros = b.nonzero < b.count;  // their code is left out of least_code and top_code
    least_ = std::min(least_, zeros ? 0 : b.least_code), top_ = std::max(top_, zeros ? 255 : b.top_code);
  }
  void add_to(QuantSums& sums) const {
    for (const auto& turn : counts_)
      for (int code = least_; code <= top_; ++code)
        sums.e8m0_blocks[static_cast<std::size_t>(code)] += turn[static_cast<std::size_t>(code)];
  }

 private:
  static constexpr std::size_t kTurns = 4;
  std::array<std::array<std::uint32_t, 256>, kTurns> counts_{};
  int least_ = 255, top_ = 0;  // codes that occurred
};

// False where float32 was too narrow for the squares: beyond its range, or values that vanish beside others of their
// batch while those are (nearly) exact.
bool squares_hold(const BlockBatch& b, const BatchSums& sums, double x2) {
  constexpr std::int32_t kTopBits = 0x7F000000;  // from 2^127 on a decoded value may be infinite
  const bool spread = b.top_code - b.least_code > 30 && x2 > 0;
  const bool lost_error = sums.err2 <= x2 * 0x1p-60 && (sums.underflow > 0 || spread);
  return b.top_amax < kTopBits && !b.vanishing && !lost_error;
}

Totals totals_of(const BatchSums& sums, double x2) {
  const double unit2 = sums.unit * sums.unit;
  Totals t{x2 * unit2, sums.q2 * unit2, 0, sums.err2 * unit2, sums.nonzero, sums.underflow, sums.clipped};
  t.xq = (t.x2 + t.q2 - t.err2) / 2;  // x2 - 2 xq + q2 = err2
  return t;
}

// The same from values and what they were decoded to, in double; the scale is finite.
Totals totals_in_double(const Scaling& s, const Tile& t, float encode, float decode) {
  Totals totals;
  for (std::size_t r = 0; r < t.rows; ++r)
    for (std::size_t c = 0; c < t.cols; ++c) {
      const float magnitude = std::fabs(t.x[r * t.stride + c]);
      const double x = magnitude, q = std::fabs(t.out[r * t.out_stride + c]);
      totals.x2 += x * x;
      totals.q2 += q * q;
      totals.xq += x * q;
      totals.err2 += (x - q) * (x - q);
      totals.nonzero += x != 0;
      totals.underflow += x != 0 && q == 0;
      totals.clipped += (s.divides() ? magnitude / decode : magnitude * encode) > s.clip_limit;
    }
  return totals;
}

// Values whose scale is not finite.
void add_nonfinite(const Tile& t, QuantSums& sums) {
  for (std::size_t r = 0; r < t.rows; ++r)
    for (std::size_t c = 0; c < t.cols; ++c) {
      const float magnitude = std::fabs(t.x[r * t.stride + c]);
      sums.nonzero += magnitude != 0;
      if (magnitude <= std::numeric_limits<float>::max()) sums.amax = std::max(sums.amax, magnitude);
    }
  sums.elements += t.rows * t.cols;
}

void add_block(const Scaling& s, const BlockBatch& b, std::size_t index, double x2, std::size_t elements,
               QuantSums& sums) {
  ++sums.blocks;
  ++sums.e8m0_blocks[static_cast<std::size_t>(b.code[index])];
  if (b.code[index] == 255) return;
  const float amax = std::bit_cast<float>(b.amax_bits[index]);
  sums.clipped_blocks += b.scaled_amax[index] > s.clip_limit;
  sums.amax = std::max(sums.amax, amax);
  if (amax == 0) return;
  ++sums.crest_blocks;
  sums.crest += amax / std::sqrt(x2 / static_cast<double>(elements));
}

void add_blocks(const BlockBatch& b, double crest, QuantSums& sums) {
  sums.blocks += b.count;
  sums.crest += crest;
  sums.crest_blocks += b.nonzero;
  sums.clipped_blocks += b.clipped;
  sums.amax = std::max(sums.amax, std::bit_cast<float>(b.top_amax));
}

void note_small_numbers(const Scaling& s, const BlockBatch& b, const Tile& t) {
  if (t.bf16 && b.nonzero > 0 && b.least_code < s.least_bf16_code) *t.too_small = true;
}

// The scale of the block that begins at this row and column of the tile.
void note_scale(const Scaling& s, const Tile& t, std::size_t row, std::size_t col, float scale) {
  const ScaleBlock block = fp8_block(s.format.granularity);
  row += t.row, col += t.col;
  const std::size_t along = (t.along_columns ? col : row) / block.along;
  const std::size_t across = (t.along_columns ? row : col) / block.across;
  t.grid.scales[along * t.grid.stride + across] = scale;
}

// The tile with its decoded values in FP32: it has them, or convert(tile) makes them once more.
Tile decoded(const Tile& t, const auto& convert) {
  if (!t.bf16) return t;
  thread_local std::vector<float> values;
  values.resize(std::max(values.size(), t.rows * t.cols));
  Tile again = t;
  again.bf16 = nullptr;
  again.out = values.data(), again.out_stride = t.cols;
  convert(again);
  return again;
}

// Adds a converted batch; block_at(i) is the tile of one of its blocks, with decoded values.
void add_batch(const Scaling& s, const BlockBatch& b, const BatchSums& batch_sums, const Tile& t, const auto& convert,
               const auto& block_at, ScaleCounts& counts, QuantSums& sums) {
  if (b.top_code < 255) {
    const BlockSums blocks = sum_blocks(b, batch_sums.unit);
    if (squares_hold(b, batch_sums, blocks.x2)) {
      add_totals(totals_of(batch_sums, blocks.x2), t.rows * t.cols, sums);
      add_blocks(b, blocks.crest, sums);
      return counts.add(b);
    }
  }
  const Tile whole = decoded(t, convert);
  for (std::size_t i = 0; i < b.count; ++i) {
    const Tile block = block_at(whole, i);
    const std::size_t size = block.rows * block.cols;
    Totals totals;
    if (b.code[i] == 255) {
      add_nonfinite(block, sums);
    } else {
      totals = totals_in_double(s, block, b.encode[i], b.decode[i]);
      add_totals(totals, size, sums);
    }
    add_block(s, b, i, totals.x2, size, sums);
  }
}

// Before find_scales(); block_at(i) are the values of block i.
void choose_four_or_six(const Scaling& s, BlockBatch& b, const auto& block_at) {
  if (s.format.scheme != QuantScheme::nvfp4 || s.format.nvfp4.four_over_six == FourOverSix::off) return;
  for (std::size_t i = 0; i < b.count; ++i)
    b.four[i] = goes_to_four(s.format.nvfp4, s.nvfp4, std::bit_cast<float>(b.amax_bits[i]), block_at(i));
}

void quantize_row_batch(const Scaling& s, const Tile& t, std::size_t width, ScaleCounts& counts, QuantSums& sums) {
  const std::size_t per_row = (t.cols + width - 1) / width;
  BlockBatch b(t.rows * per_row, width);
  for (std::size_t i = per_row - 1; i < b.count; i += per_row)
    b.elements[i] = static_cast<float>(t.cols - (per_row - 1) * width);
  find_row_amax(t, width, b.amax_bits.data());
  choose_four_or_six(s, b, [&](std::size_t i) -> SharedBlock {
    const Tile block = part_of(t, i / per_row, i % per_row * width, 1, width);
    return {block.x, 1, 0, block.cols, 1};
  });
  find_scales(s, b);
  note_small_numbers(s, b, t);
  if (t.grid.scales)
    for (std::size_t i = 0; i < b.count; ++i) note_scale(s, t, i / per_row, i % per_row * width, b.decode[i]);
  const auto convert = [&](const Tile& tile) { return convert_rows(s, tile, width, b); };
  add_batch(
      s, b, convert(t), t, convert,
      [&](const Tile& whole, std::size_t i) { return part_of(whole, i / per_row, i % per_row * width, 1, width); },
      counts, sums);
}

void add(const BatchSums& stretch, BatchSums& all) {
  all.unit = stretch.unit;
  all.q2 += stretch.q2, all.err2 += stretch.err2;
  all.nonzero += stretch.nonzero, all.underflow += stretch.underflow, all.clipped += stretch.clipped;
}

// Columns of one scale each.
void quantize_column_batch(const Scaling& s, const Tile& t, ScaleCounts& counts, QuantSums& sums) {
  BlockBatch b(t.cols, t.rows);
  find_column_amax(t, b.amax_bits.data());
  choose_four_or_six(s, b, [&](std::size_t i) -> SharedBlock { return {t.x + i, 1, 0, t.rows, t.stride}; });
  find_scales(s, b);
  note_small_numbers(s, b, t);
  if (t.grid.scales)
    for (std::size_t i = 0; i < b.count; ++i) note_scale(s, t, 0, i, b.decode[i]);
  const auto convert = [&](const Tile& tile) {
    BatchSums all;
    for_each_part(tile, kStretchRows, t.cols, [&](const Tile& stretch) { add(convert_columns(s, stretch, b), all); });
    return all;
  };
  add_batch(
      s, b, convert(t), t, convert,
      [](const Tile& whole, std::size_t i) { return part_of(whole, 0, i, whole.rows, 1); }, counts, sums);
}

// A row of squares, each a block of the batch. They are converted as the rows of sixteen values that they consist of.
void quantize_square_batch(const Scaling& s, const Tile& t, ScaleCounts& counts, QuantSums& sums) {
  const std::size_t per_row = (t.cols + kNvfp4Square - 1) / kNvfp4Square;
  BlockBatch squares(per_row, kNvfp4Square * kNvfp4Square);
  const auto square_of = [per_row](const Tile& tile, std::size_t i) {
    return part_of(tile, 0, i % per_row * kNvfp4Square, tile.rows, kNvfp4Square);
  };
  std::array<std::int32_t, kMaxBlocks> row_amax;
  find_row_amax(t, kNvfp4Square, row_amax.data());
  for (std::size_t i = 0; i < per_row; ++i) {
    squares.amax_bits[i] = 0;
    for (std::size_t r = 0; r < t.rows; ++r)
      squares.amax_bits[i] = std::max(squares.amax_bits[i], row_amax[r * per_row + i]);
    squares.elements[i] = static_cast<float>(t.rows * square_of(t, i).cols);
  }
  choose_four_or_six(s, squares, [&](std::size_t i) -> SharedBlock {
    const Tile square = square_of(t, i);
    return {square.x, square.rows, square.stride, square.cols, 1};
  });
  find_scales(s, squares);
  note_small_numbers(s, squares, t);
  const auto convert = [&](const Tile& tile) {
    BlockBatch rows = squares;
    rows.count = tile.rows * per_row;
    for (std::size_t r = 1; r < tile.rows; ++r)
      for (auto* each : {&rows.encode, &rows.decode, &rows.bf16_decode})
        std::copy_n(each->begin(), per_row, each->begin() + static_cast<std::ptrdiff_t>(r * per_row));
    const BatchSums converted = convert_rows(s, tile, kNvfp4Square, rows);
    squares.x2.fill(0);
    for (std::size_t i = 0; i < rows.count; ++i) squares.x2[i % per_row] += rows.x2[i];
    return converted;
  };
  const BatchSums converted = convert(t);
  add_batch(s, squares, converted, t, convert, square_of, counts, sums);
}

}  // namespace

void quantize_squares(const Scaling& s, const Tile& t, QuantSums& sums) {
  ScaleCounts counts;
  for_each_part(t, kNvfp4Square, kMaxBlocks / kNvfp4Square * kNvfp4Square,
                [&](const Tile& part) { quantize_square_batch(s, part, counts, sums); });
  counts.add_to(sums);
}

void quantize_row_blocks(const Scaling& s, const Tile& t, std::size_t width, QuantSums& sums) {
  width = std::min(width, t.cols);
  if (width > kBatchElements)
    return for_each_part(t, 1, width, [&](const Tile& row) { quantize_area(s, row, tile_amax(row), sums); });
  const std::size_t blocks = std::min(kMaxBlocks, kBatchElements / width);
  const std::size_t cols = std::min(t.cols, blocks * width), per_row = (cols + width - 1) / width;
  ScaleCounts counts;
  for_each_part(t, blocks / per_row, cols, [&](const Tile& part) { quantize_row_batch(s, part, width, counts, sums); });
  counts.add_to(sums);
}

void quantize_column_blocks(const Scaling& s, const Tile& t, std::size_t depth, QuantSums& sums) {
  ScaleCounts counts;
  for_each_part(t, depth, kMaxBlocks, [&](const Tile& part) { quantize_column_batch(s, part, counts, sums); });
  counts.add_to(sums);
}

void quantize_area(const Scaling& s, const Tile& t, float amax, QuantSums& sums) {
  const std::size_t cols = std::min(t.cols, kAreaCols), rows = std::min(kMaxBlocks, kBatchElements / cols);
  BlockBatch b(rows, cols);  // rows, all with the scale of the area
  std::fill_n(b.amax_bits.begin(), b.count, std::bit_cast<std::int32_t>(amax));
  find_scales(s, b);
  note_small_numbers(s, b, t);
  if (t.grid.scales) note_scale(s, t, 0, 0, b.decode[0]);
  double x2 = 0;
  for_each_part(t, rows, cols, [&](const Tile& part) {
    b.x2.fill(0);  // of rows that the last part has not
    const auto convert = [&](const Tile& tile) { return convert_rows(s, tile, cols, b); };
    const BatchSums batch_sums = convert(part);
    if (b.code[0] == 255) return add_nonfinite(part, sums);
    b.count = part.rows;
    const double part_x2 = sum_blocks(b, batch_sums.unit).x2;
    const Totals totals = squares_hold(b, batch_sums, part_x2)
                              ? totals_of(batch_sums, part_x2)
                              : totals_in_double(s, decoded(part, convert), b.encode[0], b.decode[0]);
    add_totals(totals, part.rows * part.cols, sums);
    x2 += totals.x2;
  });
  add_block(s, b, 0, x2, t.rows * t.cols, sums);
}

}  // namespace moescope
