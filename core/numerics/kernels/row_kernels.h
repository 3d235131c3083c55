// Blocks along rows: largest magnitudes, then values, of a batch.
#pragma once

#include "core/numerics/kernels/batch.h"
#include "core/numerics/kernels/streaming.h"

namespace moescope {

// Of every block of `width` columns, row by row.
void find_row_amax(const Tile& tile, std::size_t width, std::int32_t* amax_bits);

// Quantizes a tile whose blocks are those of the batch, and adds what its values add up to when `sums` was asked for.
// `clips`: some values exceed the element's maximum. `lines`: target.lines.
using QuantizeRows = void (*)(const Scaling&, const Tile&, std::size_t width, const Target&, Batch&, Totals&);
QuantizeRows rows_function(const OperandFormat& format, bool clips, bool sums, bool lines);

}  // namespace moescope
