#include "core/numerics/operand_format.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <memory>

#include "core/numerics/hadamard.h"
#include "core/numerics/operand_kernels.h"

namespace moescope {
namespace {

constexpr std::size_t kSquare = 128;
constexpr std::size_t kNvfp4Block = 16;
constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

// What shares a scale, in rows and columns of the matrix as it lies in memory; kAll: all of them.
struct Scope {
  std::size_t rows, cols;
};

Scope scope_of(const OperandFormat& format, BlockAxis axis) {
  std::size_t along = 0, across = 1;  // the contracting dimension
  if (format.scheme == QuantScheme::mx) {
    along = static_cast<std::size_t>(format.block);
  } else if (format.scheme == QuantScheme::nvfp4) {
    along = kNvfp4Block;
  } else {
    constexpr Scope kFp8[] = {{kAll, kAll}, {kAll, 1}, {kSquare, 1}, {kSquare, kSquare}};
    along = kFp8[static_cast<int>(format.granularity)].rows;
    across = kFp8[static_cast<int>(format.granularity)].cols;
  }
  return axis == BlockAxis::row ? Scope{across, along} : Scope{along, across};
}

Tile part_of(const Tile& t, std::size_t row, std::size_t col, std::size_t rows, std::size_t cols) {
  Tile part{t.x + row * t.stride + col,
            t.stride,
            std::min(rows, t.rows - row),
            std::min(cols, t.cols - col),
            t.out + row * t.out_stride + col,
            t.out_stride,
            t.key};
  part.key.first_row += static_cast<std::uint32_t>(row);
  part.key.first_col += static_cast<std::uint32_t>(col);
  return part;
}

// A tile under a scale that is not finite.
void fill_nan(const Tile& t, QuantSums* sums) {
  for (std::size_t r = 0; r < t.rows; ++r) {
    std::fill_n(t.out + r * t.out_stride, t.cols, std::numeric_limits<float>::quiet_NaN());
    if (!sums) continue;
    for (std::size_t c = 0; c < t.cols; ++c) {
      const float magnitude = std::fabs(t.x[r * t.stride + c]);
      sums->nonzero += magnitude != 0;
      if (magnitude <= std::numeric_limits<float>::max()) sums->amax = std::max(sums->amax, magnitude);
    }
  }
  if (!sums) return;
  sums->elements += t.rows * t.cols;
  ++sums->blocks;
  ++sums->e8m0_blocks[255];
}

void quantize_block_or_nan(const Scaling& scaling, const Tile& block, QuantSums* sums) {
  if (!quantize_area(scaling, block, tile_amax(block), sums)) fill_nan(block, sums);
}

void for_each_block(const Tile& t, Scope scope, const auto& body) {
  for (std::size_t r = 0; r < t.rows; r += std::min(scope.rows, t.rows))
    for (std::size_t c = 0; c < t.cols; c += std::min(scope.cols, t.cols))
      body(part_of(t, r, c, scope.rows, scope.cols));
}

// Rows with scales of their own, as many at a time as fit.
void quantize_by_rows(const Scaling& scaling, const Tile& t, std::size_t width, QuantSums* sums) {
  const std::size_t cols = std::min(t.cols, kTileCols);
  const std::size_t rows = kTileCols / ((cols + width - 1) / width * width);
  for_each_block(t, {rows, cols}, [&](const Tile& tile) {
    if (quantize_separate_rows(scaling, tile, width, sums)) return;
    for_each_block(tile, {1, width}, [&](const Tile& block) { quantize_block_or_nan(scaling, block, sums); });
  });
}

void quantize_scaled(const Scaling& scaling, const Tile& t, Scope scope, QuantSums* sums) {
  const std::size_t width = scope.cols == kAll ? std::bit_ceil(t.cols) : scope.cols;
  if (!std::has_single_bit(width) || width > kTileCols)
    return for_each_block(t, scope, [&](const Tile& block) { quantize_block_or_nan(scaling, block, sums); });
  if (scope.rows == 1) return quantize_by_rows(scaling, t, width, sums);
  for_each_block(t, {scope.rows, kTileCols}, [&](const Tile& tile) {
    if (quantize_tile(scaling, tile, width, sums)) return;
    for_each_block(tile, scope, [&](const Tile& block) { quantize_block_or_nan(scaling, block, sums); });
  });
}

void quantize_tensor(const Scaling& scaling, const Tile& t, Scope scope, float amax, QuantSums* sums) {
  if (!std::isfinite(amax)) return for_each_block(t, scope, [&](const Tile& block) { fill_nan(block, sums); });
  if (scaling.format.scheme == QuantScheme::nvfp4) return quantize_scaled(scaling, t, scope, sums);
  quantize_area(scaling, t, amax, sums);
}

Tile tile_of(MatrixView in, const RoundingKey& key, float* out, std::size_t out_stride) {
  return {in.data, in.stride, in.rows, in.cols, out, out_stride, key};
}

void quantize_unrotated(const OperandFormat& format, MatrixView in, BlockAxis axis, const RoundingKey& key,
                        const float* tensor_amax, float* out, std::size_t out_stride, QuantSums* sums) {
  const Tile t = tile_of(in, key, out, out_stride);
  if (format.scheme == QuantScheme::fp32) return copy_values(t, sums);
  if (format.scheme == QuantScheme::bf16) return round_values_bf16(t, format.rounding, sums);
  if (format.scheme == QuantScheme::mx && format.rounding == Rounding::nearest)
    return quantize_dequantize({format.element, format.rule, format.block}, in, axis, out, out_stride, sums);
  const Scope scope = scope_of(format, axis);
  if (!has_tensor_scale(format)) return quantize_scaled(scaling_of(format, 0), t, scope, sums);
  const float amax = tensor_amax ? *tensor_amax : tile_amax(t);
  quantize_tensor(scaling_of(format, amax), t, scope, amax, sums);
}

void quantize(const OperandFormat& format, MatrixView in, BlockAxis axis, const RoundingKey& key,
              const float* tensor_amax, float* out, std::size_t out_stride, QuantSums* sums) {
  if (in.rows == 0 || in.cols == 0) return;
  if (!format.hadamard) return quantize_unrotated(format, in, axis, key, tensor_amax, out, out_stride, sums);
  const auto rotated = std::make_unique_for_overwrite<float[]>(in.rows * in.cols);
  hadamard_rotate(in, axis, format.hadamard, key.rotation_seed, axis == BlockAxis::row ? key.first_col : key.first_row,
                  rotated.get(), in.cols);
  quantize_unrotated(format, {rotated.get(), in.rows, in.cols, in.cols}, axis, key, tensor_amax, out, out_stride, sums);
}

}  // namespace

const char* element_name(const OperandFormat& format) {
  if (format.scheme == QuantScheme::fp32) return "fp32";
  return format.scheme == QuantScheme::bf16 ? "bf16" : traits(format.element).name;
}

double bits_per_value(const OperandFormat& format) {
  const double element = traits(format.element).bits;
  switch (format.scheme) {
    case QuantScheme::fp32:
      return 32;
    case QuantScheme::bf16:
      return 16;
    case QuantScheme::mx:
      return element + 8.0 / format.block;
    case QuantScheme::nvfp4:
      return element + 8.0 / kNvfp4Block;
    case QuantScheme::fp8:
      break;
  }
  if (format.granularity == ScaleGranularity::block_1x128) return element + 32.0 / kSquare;
  if (format.granularity == ScaleGranularity::block_128x128) return element + 32.0 / (kSquare * kSquare);
  return element;
}

bool has_tensor_scale(const OperandFormat& format) {
  return format.scheme == QuantScheme::nvfp4 ||
         (format.scheme == QuantScheme::fp8 && format.granularity == ScaleGranularity::tensor);
}

float matrix_amax(MatrixView in) {
  return tile_amax(tile_of(in, {}, nullptr, 0));
}

void quantize_operand(const OperandFormat& format, MatrixView in, BlockAxis axis, const RoundingKey& key, float* out,
                      std::size_t out_stride, QuantSums* sums) {
  quantize(format, in, axis, key, nullptr, out, out_stride, sums);
}

void quantize_operand_tile(const OperandFormat& format, MatrixView in, BlockAxis axis, const RoundingKey& key,
                           float tensor_amax, float* out, std::size_t out_stride, QuantSums* sums) {
  assert(!(format.hadamard && has_tensor_scale(format)));
  quantize(format, in, axis, key, &tensor_amax, out, out_stride, sums);
}

}  // namespace moescope
