// The hot loops of quantize_operand: blocks along rows, blocks down columns, and areas under one given scale.
//
// Sums are taken in float32 in units of each block's scale, joined relative to a power of two near the largest scale of
// a few thousand elements, and then added in double; their order depends on the shape alone. Where float32 is too
// narrow for them, and where something is not finite, the same loops run once more with sums in double.
#pragma once

#include <cstddef>
#include <vector>

#include "core/numerics/kernels/batch.h"
#include "core/numerics/kernels/column_kernels.h"
#include "core/numerics/kernels/streaming.h"
#include "core/numerics/scaling.h"

namespace moescope {

inline constexpr std::size_t kTallRows = 512;  // columns of more are read in the order of the memory

// Every `width` columns of each row have a scale of their own.
void quantize_row_blocks(const Scaling& scaling, const Tile& tile, std::size_t width, QuantSums* sums);
// Every `depth` rows of each column have a scale of their own.
void quantize_column_blocks(const Scaling& scaling, const Tile& tile, std::size_t depth, QuantSums* sums);

// Columns of one scale each that are too long for the caches, once their largest magnitudes are known: in tiles of at
// most kTileRows rows and kTileCols columns, whose first one, `col`, is a multiple of kTileCols.
class TallColumns {
 public:
  TallColumns(const Scaling& scaling, std::size_t cols);
  // Largest magnitude of each column, 0 at first; to be set before find_scales.
  std::int32_t* amax_bits() { return amax_bits_.data(); }
  void find_scales();
  void quantize(const Tile& tile, std::size_t col, bool sums);
  // Whether all sums could be taken in float32, so that the values are not needed again.
  bool sums_hold();
  // `all`: the whole columns.
  void add_to(const Tile& all, QuantSums& sums);

 private:
  Scaling s_;
  std::size_t cols_;
  std::vector<std::int32_t> amax_bits_;
  std::vector<Batch> batches_;
  std::vector<Totals> totals_;
};

// The whole tile shares the scale of `amax`.
void quantize_area(const Scaling& scaling, const Tile& tile, float amax, QuantSums* sums);

// Largest magnitude; NaN or infinity if there is one.
float tile_amax(const Tile& tile);

}  // namespace moescope
