// The hot loops of quantize_operand: blocks along rows, blocks down columns, and areas under one given scale.
//
// Sums are taken in float32 in units of each block's scale, joined relative to a power of two near the largest scale of
// a few thousand elements, and then added in double; their order depends on the shape alone. Where float32 is too
// narrow for them, and where something is not finite, the same loops run once more with sums in double.
#pragma once

#include <cstddef>

#include "core/numerics/scaling.h"
#include "core/numerics/streaming.h"

namespace moescope {

// Every `width` columns of each row have a scale of their own.
void quantize_row_blocks(const Scaling& scaling, const Tile& tile, std::size_t width, QuantSums* sums);
// Every `depth` rows of each column have a scale of their own.
void quantize_column_blocks(const Scaling& scaling, const Tile& tile, std::size_t depth, QuantSums* sums);
// The whole tile shares the scale of `amax`.
void quantize_area(const Scaling& scaling, const Tile& tile, float amax, QuantSums* sums);

// Largest magnitude; NaN or infinity if there is one.
float tile_amax(const Tile& tile);

}  // namespace moescope
