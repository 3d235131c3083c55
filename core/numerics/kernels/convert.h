// Values of a batch become elements of their format and numbers again, at scales that are known; and what is counted of
// them on the way.
#pragma once

#include "core/numerics/kernels/block_scales.h"

namespace moescope {

// Of all values of a batch. Squares are in units of `unit`, a power of two near the largest scale.
struct BatchSums {
  double unit = 1;
  double q2 = 0, err2 = 0;
  std::uint64_t nonzero = 0, underflow = 0, clipped = 0;
};

// Blocks of `width` columns, row by row; of each the sum of squares in batch.x2.
BatchSums convert_rows(const Scaling& scaling, const Tile& tile, Index width, BlockBatch& batch);
// Columns are the blocks. Adds to batch.x2: rows may come in several tiles.
BatchSums convert_columns(const Scaling& scaling, const Tile& tile, BlockBatch& batch);

struct BlockSums {
  double x2;     // squares, in units of `unit`
  double crest;  // amax / rms, from x2 and elements of each block
};
BlockSums sum_blocks(const BlockBatch& batch, double unit);

// fp32: values are copied; bf16: each is rounded by itself. There are no scales. A few thousand values at most.
void convert_unscaled(const OperandFormat& format, const Tile& tile, QuantSums& sums);

}  // namespace moescope
