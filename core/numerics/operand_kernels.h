// The hot loops of quantize_operand: tiles whose scales follow from their own values, and areas under one scale.
//
// Sums are taken in float32 relative to a power of two near the tile's largest scale, and added in double every few
// thousand elements; their order depends on the tile's shape alone.
#pragma once

#include <cstddef>

#include "core/numerics/float_rounding.h"
#include "core/numerics/operand_format.h"

namespace moescope {

inline constexpr std::size_t kTileCols = 1024;

struct Scaling {
  OperandFormat format;  // fp8, mx or nvfp4
  ElementRounding rounding;
  float clip_limit;    // scaled magnitudes above it are clipped
  float tensor_scale;  // t of nvfp4
};
Scaling scaling_of(const OperandFormat& format, float tensor_amax);

struct Tile {
  const float* x;
  std::size_t stride, rows, cols;
  float* out;
  std::size_t out_stride;
  RoundingKey key;  // with the tile's own first row and column
};

// Every `width` (a power of two) columns over all rows of the tile share a scale; at most kTileCols columns.
// False, and nothing done, when a scale is not finite.
bool quantize_tile(const Scaling& scaling, const Tile& tile, std::size_t width, QuantSums* sums);
// The same for each row of the tile by itself; rows * (cols rounded up to width) is at most kTileCols.
bool quantize_separate_rows(const Scaling& scaling, const Tile& tile, std::size_t width, QuantSums* sums);

// The whole tile shares the scale of `amax`. False, and nothing done, when that is not finite.
bool quantize_area(const Scaling& scaling, const Tile& tile, float amax, QuantSums* sums);

// fp32 and bf16: values without scales.
void copy_values(const Tile& tile, QuantSums* sums);
void round_values_bf16(const Tile& tile, Rounding rounding, QuantSums* sums);

// Largest magnitude; NaN or infinity if there is one.
float tile_amax(const Tile& tile);

}  // namespace moescope
