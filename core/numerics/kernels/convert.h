// Converts the values of a batch to elements of their format and back, with known scales, and counts clipping,
// underflow and errors.
#pragma once

#include "core/numerics/kernels/block_scales.h"

namespace moescope {

// Sums over all values of a batch. Squares are in units of the square of `unit`, a power of two near the largest scale.
struct BatchSums {
  double unit = 1;
  double q2 = 0, err2 = 0;
  std::uint64_t nonzero = 0, underflow = 0, clipped = 0;
};

// Converts blocks of `width` columns, row by row. batch.x2 becomes the sum of squares of each block.
BatchSums convert_rows(const Scaling& scaling, const Tile& tile, Index width, BlockBatch& batch);
// Converts blocks that are columns. Adds to batch.x2, because the rows may come in several tiles.
BatchSums convert_columns(const Scaling& scaling, const Tile& tile, BlockBatch& batch);

struct BlockSums {
  double x2;     // sum of squares, in units of the square of `unit`
  double crest;  // sum of amax / rms, from x2 and elements of each block
};
BlockSums sum_blocks(const BlockBatch& batch, double unit);

// Converts a tile to a format without scales: fp32 copies the values, bf16 rounds each value by itself. The tile must
// have a few thousand values at most.
void convert_unscaled(const OperandFormat& format, const Tile& tile, QuantSums& sums);

}  // namespace moescope
