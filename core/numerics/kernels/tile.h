// A rectangle of a matrix that kernels quantize, and its blocks.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/numerics/operand.h"

namespace moescope {

struct Tile {
  Matrix<const float> in{};
  Matrix<float> out{};
  Matrix<Bf16> bf16{};        // used in place of `out`: elements times block scales, without tensor-wide scales
  bool* too_small = nullptr;  // set to true if a number is too small for BF16; not null with bf16
  ScaleGrid grid{};           // with bf16, for fp8 with a scale grid
  BlockAxis axis = BlockAxis::row;
  RoundingKey key{};                           // has the first row and column of the tile
  const std::uint32_t* column_keys = nullptr;  // keys of the tile's columns and of 15 more; only if stochastic

  Index out_stride() const { return bf16.data ? bf16.stride : out.stride; }

  Tile block(Index row, Index col, Index rows, Index cols) const {
    Tile part = *this;
    part.in = in.block(row, col, std::min(rows, in.rows - row), std::min(cols, in.cols - col));
    if (out.data) part.out = out.block(row, col, part.in.rows, part.in.cols);
    if (bf16.data) part.bf16 = bf16.block(row, col, part.in.rows, part.in.cols);
    if (column_keys) part.column_keys += col;
    part.grid = axis == BlockAxis::row ? grid.from(col, row) : grid.from(row, col);
    part.key.first_row += static_cast<std::uint32_t>(row);
    part.key.first_col += static_cast<std::uint32_t>(col);
    return part;
  }
  // Calls body(block) for blocks of `rows` x `cols`, row by row; blocks at the ends may be smaller.
  void for_each_block(Index rows, Index cols, const auto& body) const {
    for (Index r = 0; r < in.rows; r += std::min(rows, in.rows))
      for (Index c = 0; c < in.cols; c += std::min(cols, in.cols)) body(block(r, c, rows, cols));
  }
};

}  // namespace moescope
