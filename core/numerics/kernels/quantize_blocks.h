// Quantizes values that share scales: blocks along rows, blocks down columns, and areas under one given scale.
//
// A batch of a few thousand values, which fits into the first-level cache, is read once for its largest magnitudes and
// once for conversion. Squares within a batch are added in float32, relative to a power of two near its largest scale;
// sums of batches are added in double. The order depends on the shape alone. If float32 is too narrow, or a value is
// not finite, the squares of the batch are added again in double.
#pragma once

#include "core/numerics/kernels/block_scales.h"

namespace moescope {

// Every `width` columns of each row have a scale of their own.
void quantize_row_blocks(const Scaling& scaling, const Tile& tile, Index width, QuantSums& sums);
// Every `depth` rows of each column have a scale of their own.
void quantize_column_blocks(const Scaling& scaling, const Tile& tile, Index depth, QuantSums& sums);
// Each square of 16x16 has a scale of its own.
void quantize_squares(const Scaling& scaling, const Tile& tile, QuantSums& sums);
// The whole tile shares the scale of `amax`.
void quantize_area(const Scaling& scaling, const Tile& tile, float amax, QuantSums& sums);

// NVFP4's 4over6: the choice between two scales of a block (scale_rules.h defines both).
// Values that share a scale: up to sixteen rows of up to sixteen values each.
struct BlockValues {
  const float* x;
  Index rows, row_stride, count, step;
};

// True if scaling the block's largest value, `amax`, to 4 gives a smaller error than scaling it to 6. Errors of one row
// are added one after the other; those of sixteen rows are added pairwise, eight apart, then four, two and one. Errors
// are in units of the values, in float32, as in TransformerEngine.
bool scales_to_four(const Nvfp4Scaling& scaling, const Nvfp4TensorScale& tensor, float amax, const BlockValues& block);

}  // namespace moescope
