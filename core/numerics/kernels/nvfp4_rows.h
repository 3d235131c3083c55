// NVFP4 along rows with all statistics, in one go: blocks of sixteen values are vectors, and sixteen blocks have a
// vector of scales.
#pragma once

#include "core/numerics/kernels/batch.h"
#include "core/numerics/kernels/streaming.h"

namespace moescope {

inline constexpr std::size_t kNvfp4Group = 256;  // values of sixteen blocks

// Whether float32 holds the sums of squares of whatever is scaled so.
bool nvfp4_sums_fit(const Scaling& scaling);

// Quantizes a tile of whole groups, a few thousand values at most. False, and nothing added, if its sums do not hold:
// see sums_hold.
bool quantize_nvfp4_rows(const Scaling& scaling, const Tile& tile, const Target& target, ScaleCounts& counts,
                         QuantSums& sums);

}  // namespace moescope
