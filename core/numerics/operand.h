// One factor of a matrix product with everything that its quantizer needs, and its scales.
#pragma once

#include <cstdint>
#include <optional>

#include "core/numerics/block_quantize.h"
#include "core/numerics/matrix.h"
#include "core/numerics/scale_rules.h"

namespace moescope {

// How a matrix is quantized: its format, and the axis along which blocks and scales run.
struct MatrixFormat {
  OperandFormat format = mx_format(ElementFormat::e4m3);
  BlockAxis axis = BlockAxis::row;
  bool operator==(const MatrixFormat&) const = default;
};

// Key of the random bits. They depend on seed, stream and the element's place in the whole tensor alone, so that
// threads and tiles do not change them. A tile sets its first row and column.
struct RoundingKey {
  std::uint64_t seed = 0;    // seed of the run and its step
  std::uint64_t stream = 0;  // one for each tensor and direction
  std::uint32_t first_row = 0, first_col = 0;
  std::uint64_t rotation_seed = 0;  // signs of the rotation; equal for both operands of a GEMM
};

// The scales of fp8's blocks: [`rows` blocks along the contracting dimension, `stride` blocks across it].
struct ScaleGrid {
  float* scales = nullptr;  // nullptr: the matrix has one scale
  Index rows = 0, stride = 0;
  ScaleBlock block{};
  Index along = 0, across = 0;  // position of this matrix in the matrix that the grid covers

  float* row(Index i) const { return scales + (along + i) / block.along * stride; }
  float& at(Index i, Index j) const { return row(i)[(across + j) / block.across]; }
  // Number of values along the contracting dimension, from i on, whose scales are in the same row.
  Index steps_to_block_end(Index i) const { return block.along - (along + i) % block.along; }
  ScaleGrid from(Index skipped_along, Index skipped_across) const {
    ScaleGrid shifted = *this;
    shifted.along += skipped_along;
    shifted.across += skipped_across;
    return shifted;
  }
};

// Two matrices of one shape may be multiplied as one, each with its own scales, random bits and statistics: w1 above
// w3, or the gradients of their outputs side by side.
enum class Halves : std::uint8_t { none, stacked, side_by_side };

// True if an operand is multiplied without quantization.
constexpr bool is_plain(const OperandFormat& format) {
  return format.scheme == QuantScheme::fp32 && format.hadamard == 0;
}

template <class T>
struct Operand {
  static Index blocks(Index length, Index block) { return length == 0 ? 0 : (length - 1) / block + 1; }

  Matrix<const T> matrix;  // both halves, if there are two
  OperandFormat format{};
  BlockAxis axis = BlockAxis::row;  // direction of the contracting dimension: along a row, or down a column
  RoundingKey key{};
  QuantSums* sums = nullptr;  // the quantizer adds its statistics to it; may be nullptr
  // For a tensor-wide scale: amax of the tensor that `matrix` is a piece of; nullopt if `matrix` is the tensor.
  std::optional<float> tensor_amax{};
  Halves halves = Halves::none;
  RoundingKey second_key{};  // key of the second half
  QuantSums* second_sums = nullptr;

  int parts() const { return halves == Halves::none ? 1 : 2; }
  // Returns the rows of a half if the halves are stacked, its columns if they are side by side.
  Index half_size() const { return halves == Halves::stacked ? matrix.rows / 2 : matrix.cols / 2; }
  Operand part(int index) const {
    if (halves == Halves::none) return *this;
    Operand one = *this;
    one.halves = Halves::none;
    one.matrix = halves == Halves::stacked ? matrix.row_block(index * half_size(), half_size())
                                           : matrix.col_block(index * half_size(), half_size());
    if (index == 1) {
      one.key = second_key;
      one.sums = second_sums;
    }
    return one;
  }
  // has_grid() is true for fp8 with more than one scale. grid() returns the grid of these scales for one half, or for
  // the whole matrix if it has no halves.
  bool has_grid() const { return format.scheme == QuantScheme::fp8 && format.granularity != ScaleGranularity::tensor; }
  ScaleGrid grid(float* scales) const {
    const bool along_row = axis == BlockAxis::row;
    const ScaleBlock block = scale_block(format);
    const Matrix<const T> one = part(0).matrix;
    return {scales, blocks(along_row ? one.cols : one.rows, block.along),
            blocks(along_row ? one.rows : one.cols, block.across), block};
  }
  // The operand must not have halves.
  Operand block(Index row, Index col, Index rows, Index cols) const {
    Operand piece = *this;
    piece.matrix = matrix.block(row, col, rows, cols);
    piece.key.first_row += static_cast<std::uint32_t>(row);
    piece.key.first_col += static_cast<std::uint32_t>(col);
    return piece;
  }
};

}  // namespace moescope
