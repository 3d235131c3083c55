// What-if of one tile (what_if.h): statistics of its blocks for every size, element format and scale rule.
//
// Value d of lane l is x[d * kWhatIfLanes + l]. Lanes are independent blocks, so that no sum crosses lanes.
#pragma once

#include <array>
#include <cstdint>

#include "core/numerics/what_if.h"

namespace moescope {

inline constexpr int kWhatIfLanes = 16;
inline constexpr int kWhatIfDepth = kWhatIfBlocks.back();  // depth of a tile; blocks of every size nest in it
inline constexpr int kWhatIfLevels = kWhatIfBlocks.size();

// Statistics of a block that do not depend on the format, lane by lane.
struct WhatIfBlock {
  alignas(64) std::array<std::int32_t, kWhatIfLanes> amax_bits{};  // NaN and infinity order above all numbers
  alignas(64) std::array<double, kWhatIfLanes> x2{};
  alignas(64) std::array<std::int32_t, kWhatIfLanes> nonzero{};
  int depth = 0;
};

// Up to kWhatIfDepth consecutive values of up to kWhatIfLanes rows (or columns).
struct WhatIfTile {
  alignas(64) std::array<float, kWhatIfDepth * kWhatIfLanes> x;
  std::array<std::array<WhatIfBlock, kWhatIfDepth / kWhatIfBlocks.front()>, kWhatIfLevels> blocks;
  int depth = 0, lanes = 0;
  float finite_amax = 0;
};

// Adds the statistics of a loaded tile to the rows of its axis.
void add_tile(WhatIfTile& tile, WhatIfRow* rows_of_axis);

}  // namespace moescope
