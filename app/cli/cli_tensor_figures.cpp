#include "app/cli/cli_tensor_figures.h"

#include <algorithm>

namespace moescope {
namespace {

constexpr std::size_t kPieceElements = std::size_t{1} << 22;  // elements read at a time
constexpr std::size_t kTileRows = 128;                        // tiles of an operand begin at multiples of this row
constexpr std::size_t kLargestBlock = 512;                    // largest block of the what-if

// Visits whole rows in pieces that begin at multiples of `unit` rows.
template <class Visit>
void each_piece(const TensorView& tensor, std::size_t matrix, std::size_t unit, Visit visit) {
  const MatrixStack stack = matrices_of(tensor);
  if (stack.rows == 0 || stack.cols == 0) return;
  const std::size_t rows = std::max<std::size_t>(1, kPieceElements / stack.cols / unit) * unit;
  for (std::size_t row = 0; row < stack.rows; row += rows) {
    const std::size_t count = std::min(rows, stack.rows - row);
    const std::vector<float> values = tensor.floats((matrix * stack.rows + row) * stack.cols, count * stack.cols);
    visit(row, Matrix<const float>{values.data(), count, stack.cols, stack.cols});
  }
}

float amax_of(const OperandFormat& format, BlockAxis axis, const TensorView& tensor, std::size_t matrix) {
  float amax = 0;
  each_piece(tensor, matrix, 1, [&](std::size_t, Matrix<const float> piece) {
    amax = larger_amax(amax, operand_amax({piece, format, axis}));
  });
  return amax;
}

// One scale runs down a whole column.
bool needs_whole_columns(const OperandFormat& format, BlockAxis axis) {
  return format.scheme == QuantScheme::fp8 && format.granularity == ScaleGranularity::row && axis == BlockAxis::column;
}

}  // namespace

MatrixStack matrices_of(const TensorView& tensor) {
  MatrixStack stack;
  const std::size_t rank = tensor.shape.size();
  if (rank > 0) stack.cols = tensor.shape[rank - 1];
  if (rank > 1) stack.rows = tensor.shape[rank - 2];
  for (std::size_t i = 0; i + 2 < rank; ++i) stack.matrices *= tensor.shape[i];
  return stack;
}

QuantSums figures_of(const TensorView& tensor, const OperandFormat& format, BlockAxis axis) {
  const MatrixStack stack = matrices_of(tensor);
  QuantSums sums;
  std::vector<float> decoded;
  for (std::size_t m = 0; m < stack.matrices && stack.rows > 0; ++m) {
    const float amax = has_tensor_scale(format) ? amax_of(format, axis, tensor, m) : 0;
    const std::size_t unit = needs_whole_columns(format, axis) ? stack.rows : kTileRows;
    each_piece(tensor, m, unit, [&](std::size_t row, Matrix<const float> piece) {
      decoded.resize(piece.rows * piece.cols);
      const RoundingKey key{.first_row = static_cast<std::uint32_t>(row)};
      quantize_operand({piece, format, axis, key, &sums, amax}, {decoded.data(), piece.rows, piece.cols});
    });
  }
  return sums;
}

std::vector<WhatIfRow> what_if_of(const TensorView& tensor) {
  std::vector<WhatIfRow> all;
  for (std::size_t m = 0; m < matrices_of(tensor).matrices; ++m) {
    each_piece(tensor, m, kLargestBlock, [&](std::size_t, Matrix<const float> piece) {
      std::vector<WhatIfRow> found = what_if(piece);
      if (all.empty()) {
        all = std::move(found);
        return;
      }
      for (std::size_t i = 0; i < all.size(); ++i) all[i].sums.add(found[i].sums);
    });
  }
  return all;
}

}  // namespace moescope
