#include "core/numerics/kernels/quantize_blocks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "core/numerics/kernels/convert.h"
#include "core/numerics/kernels/float_rounding.h"

namespace moescope {
namespace {

constexpr Index kBatchElements = 4096;
constexpr Index kAreaCols = 1024;
constexpr Index kNvfp4Square = 16;
constexpr Index kStretchRows = 128;  // rows of a column whose squares are added in float32

// Sums over the values of blocks with finite scales.
struct Totals {
  double x2 = 0, q2 = 0, xq = 0, err2 = 0;
  std::uint64_t nonzero = 0, underflow = 0, clipped = 0;
};

void add_totals(const Totals& t, Index elements, QuantSums& sums) {
  sums.x2 += t.x2;
  sums.q2 += t.q2;
  sums.xq += t.xq;
  sums.err2 += t.err2;
  sums.elements += elements;
  sums.nonzero += t.nonzero;
  sums.underflow += t.underflow;
  sums.clipped += t.clipped;
}

// Counts blocks by scale. Neighbouring blocks mostly have equal scales, and an addition to a counter waits for the
// previous one, so four counters for each scale are used in turn.
class ScaleCounts {
 public:
  void add(const BlockBatch& b) {
    for (Index i = 0; i < b.count; ++i) ++counts_[i & (kTurns - 1)][static_cast<Index>(b.code[i])];
    const bool zeros = b.nonzero < b.count;  // least_code and top_code do not include the code of blocks of zeros
    lowest_code_ = std::min(lowest_code_, zeros ? 0 : b.least_code);
    highest_code_ = std::max(highest_code_, zeros ? 255 : b.top_code);
  }
  void add_to(QuantSums& sums) const {
    for (const auto& turn : counts_)
      for (int code = lowest_code_; code <= highest_code_; ++code) sums.e8m0_blocks[code] += turn[code];
  }

 private:
  static constexpr Index kTurns = 4;
  std::array<std::array<std::uint32_t, 256>, kTurns> counts_{};
  int lowest_code_ = 255, highest_code_ = 0;  // codes that occurred
};

// False if float32 was too narrow for the squares: they are beyond its range, or squares vanished beside larger values
// of the batch that are (nearly) exact.
bool squares_hold(const BlockBatch& b, const BatchSums& sums, double x2) {
  constexpr std::int32_t kTopBits = 0x7F000000;  // from 2^127 on, a decoded value may be infinite
  const bool spread = b.top_code - b.least_code > 30 && x2 > 0;
  const bool lost_error = sums.err2 <= x2 * 0x1p-60 && (sums.underflow > 0 || spread);
  return b.top_amax_bits < kTopBits && !b.vanishing && !lost_error;
}

Totals totals_of(const BatchSums& sums, double x2) {
  const double unit2 = sums.unit * sums.unit;
  Totals t{x2 * unit2, sums.q2 * unit2, 0, sums.err2 * unit2, sums.nonzero, sums.underflow, sums.clipped};
  t.xq = (t.x2 + t.q2 - t.err2) / 2;  // x2 - 2 xq + q2 = err2
  return t;
}

// Computes the totals from values and decoded values, in double; the scale must be finite.
Totals totals_in_double(const Scaling& s, const Tile& t, float encode, float decode) {
  Totals totals;
  for (Index r = 0; r < t.in.rows; ++r)
    for (Index c = 0; c < t.in.cols; ++c) {
      const float magnitude = std::fabs(t.in.row(r)[c]);
      const double x = magnitude, q = std::fabs(t.out.row(r)[c]);
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

// Counts values whose scale is not finite.
void add_nonfinite(const Tile& t, QuantSums& sums) {
  for (Index r = 0; r < t.in.rows; ++r)
    for (Index c = 0; c < t.in.cols; ++c) {
      const float magnitude = std::fabs(t.in.row(r)[c]);
      sums.nonzero += magnitude != 0;
      if (magnitude <= std::numeric_limits<float>::max()) sums.amax = std::max(sums.amax, magnitude);
    }
  sums.elements += t.in.size();
}

void add_block(const Scaling& s, const BlockBatch& b, Index index, double x2, Index elements, QuantSums& sums) {
  ++sums.blocks;
  ++sums.e8m0_blocks[static_cast<Index>(b.code[index])];
  if (b.code[index] == 255) return;
  const float amax = std::bit_cast<float>(b.amax_bits[index]);
  sums.clipped_blocks += b.scaled_amax[index] > s.clip_limit;
  sums.amax = std::max(sums.amax, amax);
  if (amax == 0) return;
  ++sums.crest_blocks;
  sums.crest += amax / std::sqrt(x2 / elements);
}

void add_blocks(const BlockBatch& b, double crest, QuantSums& sums) {
  sums.blocks += b.count;
  sums.crest += crest;
  sums.crest_blocks += b.nonzero;
  sums.clipped_blocks += b.clipped;
  sums.amax = std::max(sums.amax, std::bit_cast<float>(b.top_amax_bits));
}

void note_small_numbers(const Scaling& s, const BlockBatch& b, const Tile& t) {
  if (t.bf16.data && b.nonzero > 0 && b.least_code < s.least_bf16_code) *t.too_small = true;
}

// Stores the scale of the block that begins at this row and column of the tile.
void note_scale(const Tile& t, Index row, Index col, float scale) {
  if (!t.grid.scales) return;
  const bool along_row = t.axis == BlockAxis::row;
  t.grid.at(along_row ? col : row, along_row ? row : col) = scale;
}

// Returns the tile with its decoded values in FP32; convert(tile) computes them again if the tile does not have them.
Tile decoded(const Tile& t, const auto& convert) {
  if (!t.bf16.data) return t;
  thread_local std::vector<float> values;
  values.resize(std::max<std::size_t>(values.size(), t.in.size()));
  Tile decoding = t;
  decoding.bf16 = {};
  decoding.out = {values.data(), t.in.rows, t.in.cols};
  convert(decoding);
  return decoding;
}

// Adds the statistics of a converted batch. block_at(tile, i) returns block i of `tile`, which has decoded values.
void add_batch(const Scaling& s, const BlockBatch& b, const Tile& t, const auto& convert, const auto& block_at,
               ScaleCounts& counts, QuantSums& sums) {
  const BatchSums batch_sums = convert(t);
  if (b.top_code < 255) {
    const BlockSums blocks = sum_blocks(b, batch_sums.unit);
    if (squares_hold(b, batch_sums, blocks.x2)) {
      add_totals(totals_of(batch_sums, blocks.x2), t.in.size(), sums);
      add_blocks(b, blocks.crest, sums);
      return counts.add(b);
    }
  }
  const Tile whole = decoded(t, convert);
  for (Index i = 0; i < b.count; ++i) {
    const Tile block = block_at(whole, i);
    const Index size = block.in.size();
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

float row_error(FourOverSix kind, const Nvfp4TensorScale& tensor, const Nvfp4BlockScale& block, const float* x,
                Index count, Index step) {
  const ElementRounding f = rounding_of(ElementFormat::e2m1);
  std::array<float, 16> errors;
  for (Index i = 0; i < count; ++i) {
    const float magnitude = std::fabs(x[i * step]);
    const float units = round_magnitude(f, magnitude * block.encode) * block.s;
    const float off = units * tensor.amax / tensor.bound - magnitude;
    errors[i] = kind == FourOverSix::mse ? off * off : std::fabs(off);
  }
  float sum = 0;
  for (Index i = 0; i < count; ++i) sum += errors[i];
  return sum;
}

float block_error(FourOverSix kind, const Nvfp4TensorScale& tensor, const Nvfp4BlockScale& scales,
                  const BlockValues& block) {
  std::array<float, kNvfp4Square> rows{};
  for (Index r = 0; r < block.rows; ++r)
    rows[r] = row_error(kind, tensor, scales, block.x + r * block.row_stride, block.count, block.step);
  if (block.rows == 1) return rows[0];
  for (Index distance = kNvfp4Square / 2; distance > 0; distance /= 2)
    for (Index r = 0; r < distance; ++r) rows[r] += rows[r + distance];
  return rows[0];
}

// Sets `four` of the blocks, with 4over6; to be called before find_scales(). block_at(i) returns the values of block i.
void choose_four_or_six(const Scaling& s, BlockBatch& b, const auto& block_at) {
  if (s.format.scheme != QuantScheme::nvfp4 || s.format.nvfp4.four_over_six == FourOverSix::off) return;
  for (Index i = 0; i < b.count; ++i)
    b.four[i] = scales_to_four(s.format.nvfp4, s.nvfp4, std::bit_cast<float>(b.amax_bits[i]), block_at(i));
}

BlockBatch batch_of(Index blocks, Index elements_of_each) {
  BlockBatch b;
  b.count = blocks;
  const Index padded = (blocks + 15) / 16 * 16;
  std::fill_n(b.x2.begin(), padded, 0.0f);
  std::fill_n(b.elements.begin(), blocks, static_cast<float>(elements_of_each));
  std::fill(b.elements.begin() + blocks, b.elements.begin() + padded, 0.0f);
  return b;
}

void quantize_row_batch(const Scaling& s, const Tile& t, Index width, ScaleCounts& counts, QuantSums& sums) {
  const Index per_row = (t.in.cols + width - 1) / width;
  BlockBatch b = batch_of(t.in.rows * per_row, width);
  for (Index i = per_row - 1; i < b.count; i += per_row) b.elements[i] = t.in.cols - (per_row - 1) * width;
  find_row_amax(t, width, b.amax_bits.data());
  choose_four_or_six(s, b, [&](Index i) -> BlockValues {
    const Tile block = t.block(i / per_row, i % per_row * width, 1, width);
    return {block.in.data, 1, 0, block.in.cols, 1};
  });
  find_scales(s, b);
  note_small_numbers(s, b, t);
  if (t.grid.scales)
    for (Index i = 0; i < b.count; ++i) note_scale(t, i / per_row, i % per_row * width, b.decode[i]);
  const auto convert = [&](const Tile& tile) { return convert_rows(s, tile, width, b); };
  add_batch(
      s, b, t, convert,
      [&](const Tile& whole, Index i) { return whole.block(i / per_row, i % per_row * width, 1, width); }, counts,
      sums);
}

void add(const BatchSums& stretch, BatchSums& all) {
  all.unit = stretch.unit;
  all.q2 += stretch.q2;
  all.err2 += stretch.err2;
  all.nonzero += stretch.nonzero;
  all.underflow += stretch.underflow;
  all.clipped += stretch.clipped;
}

// Quantizes columns with one scale each.
void quantize_column_batch(const Scaling& s, const Tile& t, ScaleCounts& counts, QuantSums& sums) {
  BlockBatch b = batch_of(t.in.cols, t.in.rows);
  find_column_amax(t, b.amax_bits.data());
  choose_four_or_six(s, b, [&](Index i) -> BlockValues { return {t.in.data + i, 1, 0, t.in.rows, t.in.stride}; });
  find_scales(s, b);
  note_small_numbers(s, b, t);
  if (t.grid.scales)
    for (Index i = 0; i < b.count; ++i) note_scale(t, 0, i, b.decode[i]);
  const auto convert = [&](const Tile& tile) {
    BatchSums all;
    tile.for_each_block(kStretchRows, t.in.cols,
                        [&](const Tile& stretch) { add(convert_columns(s, stretch, b), all); });
    return all;
  };
  add_batch(
      s, b, t, convert, [](const Tile& whole, Index i) { return whole.block(0, i, whole.in.rows, 1); }, counts, sums);
}

// Quantizes a row of squares, each of which is a block of the batch. Squares are converted as rows of sixteen values.
void quantize_square_batch(const Scaling& s, const Tile& t, ScaleCounts& counts, QuantSums& sums) {
  const Index per_row = (t.in.cols + kNvfp4Square - 1) / kNvfp4Square;
  BlockBatch squares = batch_of(per_row, kNvfp4Square * kNvfp4Square);
  const auto square_of = [per_row](const Tile& tile, Index i) {
    return tile.block(0, i % per_row * kNvfp4Square, tile.in.rows, kNvfp4Square);
  };
  std::array<std::int32_t, kMaxBlocks> row_amax;
  find_row_amax(t, kNvfp4Square, row_amax.data());
  for (Index i = 0; i < per_row; ++i) {
    squares.amax_bits[i] = 0;
    for (Index r = 0; r < t.in.rows; ++r)
      squares.amax_bits[i] = std::max(squares.amax_bits[i], row_amax[r * per_row + i]);
    squares.elements[i] = t.in.rows * square_of(t, i).in.cols;
  }
  choose_four_or_six(s, squares, [&](Index i) -> BlockValues {
    const Tile square = square_of(t, i);
    return {square.in.data, square.in.rows, square.in.stride, square.in.cols, 1};
  });
  find_scales(s, squares);
  note_small_numbers(s, squares, t);
  const auto convert = [&](const Tile& tile) {
    BlockBatch rows = squares;
    rows.count = tile.in.rows * per_row;
    for (Index r = 1; r < tile.in.rows; ++r)
      for (auto* factors : {&rows.encode, &rows.decode, &rows.bf16_decode})
        std::copy_n(factors->begin(), per_row, factors->begin() + r * per_row);
    const BatchSums converted = convert_rows(s, tile, kNvfp4Square, rows);
    squares.x2.fill(0);
    for (Index i = 0; i < rows.count; ++i) squares.x2[i % per_row] += rows.x2[i];
    return converted;
  };
  add_batch(s, squares, t, convert, square_of, counts, sums);
}

}  // namespace

void quantize_squares(const Scaling& s, const Tile& t, QuantSums& sums) {
  ScaleCounts counts;
  t.for_each_block(kNvfp4Square, kMaxBlocks / kNvfp4Square * kNvfp4Square,
                   [&](const Tile& part) { quantize_square_batch(s, part, counts, sums); });
  counts.add_to(sums);
}

void quantize_row_blocks(const Scaling& s, const Tile& t, Index width, QuantSums& sums) {
  width = std::min(width, t.in.cols);
  if (width > kBatchElements)
    return t.for_each_block(1, width, [&](const Tile& row) { quantize_area(s, row, matrix_amax(row.in), sums); });
  const Index blocks = std::min(kMaxBlocks, kBatchElements / width);
  const Index cols = std::min(t.in.cols, blocks * width), per_row = (cols + width - 1) / width;
  ScaleCounts counts;
  t.for_each_block(blocks / per_row, cols, [&](const Tile& part) { quantize_row_batch(s, part, width, counts, sums); });
  counts.add_to(sums);
}

void quantize_column_blocks(const Scaling& s, const Tile& t, Index depth, QuantSums& sums) {
  ScaleCounts counts;
  t.for_each_block(depth, kMaxBlocks, [&](const Tile& part) { quantize_column_batch(s, part, counts, sums); });
  counts.add_to(sums);
}

void quantize_area(const Scaling& s, const Tile& t, float amax, QuantSums& sums) {
  const Index cols = std::min(t.in.cols, kAreaCols), rows = std::min(kMaxBlocks, kBatchElements / cols);
  BlockBatch b = batch_of(rows, cols);  // one block per row, all with the scale of the area
  std::fill_n(b.amax_bits.begin(), b.count, std::bit_cast<std::int32_t>(amax));
  find_scales(s, b);
  note_small_numbers(s, b, t);
  note_scale(t, 0, 0, b.decode[0]);
  double x2 = 0;
  t.for_each_block(rows, cols, [&](const Tile& part) {
    b.x2.fill(0);  // for rows that the last part does not have
    const auto convert = [&](const Tile& tile) { return convert_rows(s, tile, cols, b); };
    const BatchSums batch_sums = convert(part);
    if (b.code[0] == 255) return add_nonfinite(part, sums);
    b.count = part.in.rows;
    const double part_x2 = sum_blocks(b, batch_sums.unit).x2;
    const Totals totals = squares_hold(b, batch_sums, part_x2)
                              ? totals_of(batch_sums, part_x2)
                              : totals_in_double(s, decoded(part, convert), b.encode[0], b.decode[0]);
    add_totals(totals, part.in.size(), sums);
    x2 += totals.x2;
  });
  add_block(s, b, 0, x2, t.in.size(), sums);
}

bool scales_to_four(const Nvfp4Scaling& scaling, const Nvfp4TensorScale& tensor, float amax, const BlockValues& block) {
  const auto error = [&](bool four) {
    const Nvfp4BlockScale scale = nvfp4_block<Nvfp4Rule::transformer_engine, true>(tensor, amax, four);
    return block_error(scaling.four_over_six, tensor, scale, block);
  };
  return error(true) < error(false);
}

}  // namespace moescope
