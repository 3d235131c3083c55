// A rectangle of a tensor that is quantized, and its parts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/numerics/operand_format.h"

namespace moescope {

struct Tile {
  const float* x;
  std::size_t stride, rows, cols;
  float* out;
  std::size_t out_stride;
  Bf16* bf16 = nullptr;          // in place of `out`: elements times block scales, without tensor-wide scales
  bool* too_small = nullptr;     // set if BF16 has no such number; not null with bf16
  ScaleGrid grid = {};           // with bf16, for fp8 with a scale grid
  bool along_columns = true;     // the contracting dimension, of the grid
  std::size_t row = 0, col = 0;  // of the tile in the grid's matrix
  RoundingKey key;               // with the tile's own first row and column
  const std::uint32_t* column_keys = nullptr;  // of the tile's columns (random_bits.h) and 15 more; stochastic alone
};

inline Tile part_of(const Tile& t, std::size_t row, std::size_t col, std::size_t rows, std::size_t cols) {
  Tile part = t;
  part.x += row * t.stride + col;
  if (t.out) part.out += row * t.out_stride + col;
  if (t.bf16) part.bf16 += row * t.out_stride + col;
  if (t.column_keys) part.column_keys += col;
  part.row += row, part.col += col;
  part.rows = std::min(rows, t.rows - row);
  part.cols = std::min(cols, t.cols - col);
  part.key.first_row += static_cast<std::uint32_t>(row);
  part.key.first_col += static_cast<std::uint32_t>(col);
  return part;
}

// body(part) for parts of `rows` x `cols`, smaller ones at the ends, row by row.
void for_each_part(const Tile& t, std::size_t rows, std::size_t cols, const auto& body) {
  for (std::size_t r = 0; r < t.rows; r += std::min(rows, t.rows))
    for (std::size_t c = 0; c < t.cols; c += std::min(cols, t.cols)) body(part_of(t, r, c, rows, cols));
}

}  // namespace moescope
