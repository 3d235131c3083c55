#include "core/numerics/operand_format.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/numerics/hadamard.h"
#include "core/numerics/kernels/convert.h"
#include "core/numerics/kernels/quantize_blocks.h"
#include "core/numerics/kernels/random_bits.h"
#include "core/numerics/scale_rules.h"

namespace moescope {
namespace {

constexpr std::size_t kSquare = 128;
constexpr std::size_t kAll = ScaleBlock::kWhole;

// What shares a scale, in rows and columns of the matrix as it lies in memory; kAll: all of them.
struct Scope {
  std::size_t rows, cols;
};

Scope scope_of(const OperandFormat& format, BlockAxis axis) {
  std::size_t along = 0, across = 1;  // the contracting dimension
  if (format.scheme != QuantScheme::fp8) {
    along = static_cast<std::size_t>(block_size(format));
    if (format.scheme == QuantScheme::nvfp4 && format.nvfp4.square) across = along;
  } else {
    along = fp8_block(format.granularity).along;
    across = fp8_block(format.granularity).across;
  }
  return axis == BlockAxis::row ? Scope{across, along} : Scope{along, across};
}

void quantize_scaled(const Scaling& scaling, const Tile& t, Scope scope, float tensor_amax, QuantSums& sums) {
  if (scope.rows == 1) return quantize_row_blocks(scaling, t, scope.cols, sums);
  if (scope.cols == 1) return quantize_column_blocks(scaling, t, scope.rows, sums);
  if (scaling.format.scheme == QuantScheme::nvfp4) return quantize_squares(scaling, t, sums);
  if (scope.rows == kAll) return quantize_area(scaling, t, tensor_amax, sums);
  for_each_part(t, scope.rows, scope.cols,
                [&](const Tile& area) { quantize_area(scaling, area, tile_amax(area), sums); });
}

// Keys of columns [first, first + count) and 15 more, from a table of this thread that grows as needed.
const std::uint32_t* column_keys(std::size_t first, std::size_t count) {
  thread_local std::vector<std::uint32_t> keys;
  for (std::size_t c = keys.size(); c < first + count + 15; ++c)
    keys.push_back(column_key(static_cast<std::uint32_t>(c)));
  return keys.data() + first;
}

Tile tile_of(MatrixView in, const RoundingKey& key, float* out, std::size_t out_stride) {
  return {.x = in.data,
          .stride = in.stride,
          .rows = in.rows,
          .cols = in.cols,
          .out = out,
          .out_stride = out_stride,
          .key = key};
}

void quantize_unscaled(const OperandFormat& format, const Tile& t, QuantSums& sums) {
  constexpr std::size_t kElements = 4096;  // squares are added in float32 over so many
  const std::size_t cols = std::min(t.cols, kElements);
  for_each_part(t, kElements / cols, cols, [&](const Tile& part) { convert_unscaled(format, part, sums); });
}

void quantize_unrotated(const OperandFormat& format, const Tile& t, BlockAxis axis, float tensor_amax,
                        QuantSums& sums) {
  if (format.scheme == QuantScheme::fp32 || format.scheme == QuantScheme::bf16)
    return quantize_unscaled(format, t, sums);
  quantize_scaled(scaling_of(format, tensor_amax), t, scope_of(format, axis), tensor_amax, sums);
}

// Rotated tiles
// --------------------------------------------------------------------------------------------------------

constexpr std::size_t kRotatedElements = 16384;  // of a tile, written and read again in the second cache
constexpr std::size_t kRotatedCols = 256;        // at most, of blocks down columns

// Tiles that cut neither a scale nor a block of the rotation.
Scope rotated_scope(const OperandFormat& format, BlockAxis axis, const Tile& t) {
  const bool rows = axis == BlockAxis::row, squares = format.scheme == QuantScheme::nvfp4 && format.nvfp4.square,
             scaled = is_scaled(format) && (squares || !has_tensor_scale(format));
  const Scope scope = scaled ? scope_of(format, axis) : Scope{1, 1};
  const std::size_t scale_along = rows ? scope.cols : scope.rows, scale_across = rows ? scope.rows : scope.cols;
  const std::size_t length = rows ? t.cols : t.rows;
  const auto rounded_up = [](std::size_t extent, std::size_t unit) { return (extent + unit - 1) / unit * unit; };
  std::size_t along = length;
  if (scale_along != kAll)
    along = rounded_up(rows ? std::min(length, kRotatedElements) : 1,
                       std::lcm(scale_along, static_cast<std::size_t>(format.hadamard)));
  const std::size_t unit = rows ? scale_across : std::lcm(scale_across, 16);  // whole vectors of columns
  const std::size_t most = kRotatedElements / std::min(along, length);
  const std::size_t across = rounded_up(std::max<std::size_t>(rows ? most : std::min(most, kRotatedCols), 1), unit);
  return rows ? Scope{across, along} : Scope{along, across};
}

Rotation rotation_of(const OperandFormat& format, const RoundingKey& key) {
  return {format.hadamard, format.rotation, key.rotation_seed};
}

std::size_t first_along(BlockAxis axis, const RoundingKey& key) {
  return axis == BlockAxis::row ? key.first_col : key.first_row;
}

void quantize(const OperandFormat& format, const Tile& t, BlockAxis axis, float tensor_amax, QuantSums& sums) {
  if (!format.hadamard) return quantize_unrotated(format, t, axis, tensor_amax, sums);
  QuantSums tiles;
  thread_local std::vector<float> rotated;
  const Scope scope = rotated_scope(format, axis, t);
  for_each_part(t, scope.rows, scope.cols, [&](Tile part) {
    if (rotated.size() < part.rows * part.cols) rotated.resize(part.rows * part.cols);
    hadamard_rotate({part.x, part.rows, part.cols, part.stride}, axis, rotation_of(format, part.key),
                    first_along(axis, part.key), rotated.data(), part.cols);
    part.x = rotated.data(), part.stride = part.cols;
    quantize_unrotated(format, part, axis, tensor_amax, tiles);
  });
  if (format.scheme == QuantScheme::fp8 && has_tensor_scale(format)) tiles.join_blocks();
  sums.add(tiles);
}

void quantize_tile(const OperandFormat& format, Tile tile, BlockAxis axis, float tensor_amax, QuantSums* sums) {
  if (tile.rows == 0 || tile.cols == 0) return;
  if (format.rounding == Rounding::stochastic) tile.column_keys = column_keys(tile.key.first_col, tile.cols);
  QuantSums unused;
  quantize(format, tile, axis, tensor_amax, sums ? *sums : unused);
}

}  // namespace

float operand_amax(const OperandFormat& format, MatrixView in, BlockAxis axis, const RoundingKey& key) {
  if (!format.hadamard) return tile_amax(tile_of(in, key, nullptr, 0));
  return rotated_amax(in, axis, rotation_of(format, key), first_along(axis, key));
}

float rotate_operand(const OperandFormat& format, MatrixView in, BlockAxis axis, const RoundingKey& key, float* out,
                     std::size_t out_stride) {
  float amax = 0;
  hadamard_rotate(in, axis, rotation_of(format, key), first_along(axis, key), out, out_stride, &amax);
  return amax;
}

OperandFormat unrotated(const OperandFormat& format) {
  OperandFormat plain = format;
  plain.hadamard = 0;
  return plain;
}

float larger_amax(float a, float b) {
  return std::isfinite(a) && !(b <= a) ? b : a;
}

namespace {

// Rotated values are the thread's, until its next call.
PreparedOperand prepared(const OperandFormat& format, MatrixView in, BlockAxis axis, const RoundingKey& key) {
  if (!has_tensor_scale(format)) return {format, in};
  if (!rotates_whole(format)) return {format, in, operand_amax(format, in, axis, key)};
  thread_local std::vector<float> rotated;
  rotated.resize(std::max(rotated.size(), in.rows * in.cols));
  const float amax = rotate_operand(format, in, axis, key, rotated.data(), in.cols);
  return {unrotated(format), {rotated.data(), in.rows, in.cols, in.cols}, amax};
}

}  // namespace

void quantize_operand(const OperandFormat& format, MatrixView in, BlockAxis axis, const RoundingKey& key, float* out,
                      std::size_t out_stride, QuantSums* sums) {
  const PreparedOperand s = prepared(format, in, axis, key);
  quantize_operand_tile(s.format, s.in, axis, key, s.tensor_amax, out, out_stride, sums);
}

void quantize_operand_tile(const OperandFormat& format, MatrixView in, BlockAxis axis, const RoundingKey& key,
                           float tensor_amax, float* out, std::size_t out_stride, QuantSums* sums) {
  quantize_tile(format, tile_of(in, key, out, out_stride), axis, tensor_amax, sums);
}

ScaleBlock fp8_block(ScaleGranularity granularity) {
  switch (granularity) {
    case ScaleGranularity::tensor:
      return {};
    case ScaleGranularity::row:
      return {kAll, 1};
    case ScaleGranularity::block_1x128:
      return {kSquare, 1};
    case ScaleGranularity::block_128x128:
      return {kSquare, kSquare};
  }
  return {};
}

bool fits_bf16(const OperandFormat& format) {
  switch (format.scheme) {
    case QuantScheme::fp32:
      return false;
    case QuantScheme::fp8:
    case QuantScheme::bf16:
    case QuantScheme::mx:
    case QuantScheme::nvfp4:
      return true;
  }
  return false;
}

float bf16_scale(const OperandFormat& format, float tensor_amax) {
  if (format.scheme == QuantScheme::nvfp4)
    return format.nvfp4.rule == Nvfp4Rule::divided ? nvfp4_tensor_scale(tensor_amax)
                                                   : static_cast<float>(nvfp4_tensor(format.nvfp4, tensor_amax).unit);
  if (format.scheme == QuantScheme::fp8 && has_tensor_scale(format))
    return 1 / fp8_encoding_scale(traits(format.element).max, format.power_of_two_scale, tensor_amax);
  return 1;
}

bool quantize_operand_bf16(const OperandFormat& format, MatrixView in, BlockAxis axis, const RoundingKey& key,
                           Bf16* out, std::size_t out_stride, float& scale, ScaleGrid grid, QuantSums* sums) {
  const PreparedOperand s = prepared(format, in, axis, key);
  scale = bf16_scale(format, s.tensor_amax);
  return quantize_operand_tile_bf16(s.format, s.in, axis, key, s.tensor_amax, out, out_stride, grid, sums);
}

bool quantize_operand_tile_bf16(const OperandFormat& format, MatrixView in, BlockAxis axis, const RoundingKey& key,
                                float tensor_amax, Bf16* out, std::size_t out_stride, ScaleGrid grid, QuantSums* sums) {
  assert(fits_bf16(format) && (!has_scale_grid(format) || grid.scales));
  // The scale of a tensor without a floor.
  bool too_small = bf16_scale(format, tensor_amax) < std::numeric_limits<float>::min();
  Tile tile = tile_of(in, key, nullptr, out_stride);
  tile.bf16 = out, tile.too_small = &too_small;
  if (has_scale_grid(format)) tile.grid = grid;
  tile.along_columns = axis == BlockAxis::row;
  quantize_tile(format, tile, axis, tensor_amax, sums);
  return !too_small;
}

}  // namespace moescope
