// Blocks down columns: largest magnitudes, then values, of a batch of columns side by side.
#pragma once

#include "core/numerics/kernels/batch.h"
#include "core/numerics/kernels/streaming.h"

namespace moescope {

inline constexpr std::size_t kTileCols = 256;  // at most, of a batch: a kilobyte of each row, for the memory
inline constexpr std::size_t kTileRows = 128;  // sums down a column are taken over so many rows in float32

// Of every column.
void find_column_amax(const Tile& tile, std::int32_t* amax_bits);
// Of any number of columns, and what `amax_bits`, of a multiple of 16, holds already.
void raise_column_amax(const Tile& tile, std::int32_t* amax_bits);

// Quantizes rows of a tile whose columns are the blocks of the batch, and adds what its values add up to, to the
// batch's x2 too, when `sums` was asked for. `clips`: some values exceed the element's maximum. `lines`: target.lines.
// NVFP4's sums hold only if nvfp4_sums_fit.
using QuantizeColumns = void (*)(const Scaling&, const Tile&, const Target&, Batch&, Totals&);
QuantizeColumns columns_function(const OperandFormat& format, bool clips, bool sums, bool lines);

}  // namespace moescope
