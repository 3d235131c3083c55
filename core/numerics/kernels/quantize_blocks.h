// Quantizes values that share scales: blocks along rows, blocks down columns, and areas under one given scale.
//
// A batch of a few thousand values, which fits into the first-level cache, is read once for its largest magnitudes and
// once for conversion. Its squares are added in float32, relative to a power of two near its largest scale, and from
// batch to batch in double, in an order that depends on the shape alone. Where float32 is too narrow, or a value is not
// finite, the squares are added again in double.
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

}  // namespace moescope
