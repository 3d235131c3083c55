// Quantizing where float32 is too narrow for the sums, or something is not finite: as the fast loops, sums in double.
#pragma once

#include "core/numerics/kernels/batch.h"
#include "core/numerics/kernels/streaming.h"

namespace moescope {

// A tile with a scale that is not finite.
void spoil(const Tile& tile, QuantSums& sums);
// All values of the tile at one finite scale.
Totals wide_totals(const Scaling& scaling, const Tile& tile, float encode, float decode);
// One block of a batch.
void quantize_carefully(const Scaling& scaling, const Tile& block, const Batch& batch, std::size_t index,
                        QuantSums& sums);

}  // namespace moescope
