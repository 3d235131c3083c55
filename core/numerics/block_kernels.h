// The hot loops of block quantization: batches of whole, finite blocks, vectorised along a row or across columns.
//
// The sums of a batch are taken in float32 after scaling by powers of two, relative to the batch's largest scale, so
// that the squares of neither 1e-30 nor 1e30 leave the range; the batch is then added in double. The order of every
// sum depends on the shape alone. Both functions return false, with nothing added to the sums, when the batch is not
// for them: values from 2^127 on or not finite, or float32 is too narrow for its statistics. Then `out` is unspecified.
#pragma once

#include <cstddef>

#include "core/numerics/block_quantize.h"

namespace moescope {

inline constexpr std::size_t kLanes = 16;         // row blocks and column batches must be multiples of this
inline constexpr std::size_t kRowBatch = 32;      // blocks
inline constexpr std::size_t kColumnBatch = 256;  // columns: a kilobyte of each row, for the prefetcher

// Whole blocks wherever they begin.
struct RowBlocks {
  const float* x[kRowBatch];
  float* out[kRowBatch];
  std::size_t count = 0;
};
bool quantize_row_batch(const BlockFormat& format, const RowBlocks& blocks, QuantSums* sums);

// One block down each column: at most format.block rows, at most kColumnBatch columns.
bool quantize_column_batch(const BlockFormat& format, const MatrixView& in, float* out, std::size_t out_stride,
                           QuantSums* sums);

}  // namespace moescope
