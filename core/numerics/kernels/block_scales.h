// Blocks of values that share a scale: their largest magnitudes, and the scales that are computed from them. quantize.h
// defines every scheme.
#pragma once

#include <array>
#include <cstdint>

#include "core/numerics/kernels/float_rounding.h"
#include "core/numerics/kernels/tile.h"
#include "core/numerics/operand.h"
#include "core/numerics/scale_rules.h"

namespace moescope {

struct Scaling {
  OperandFormat format;  // fp8, mx or nvfp4
  ElementRounding rounding;
  float clip_limit = 0;              // scaled magnitudes above it are clipped
  float tensor_scale = 1;            // t of nvfp4
  Nvfp4TensorScale nvfp4 = {};       // for the rules other than `divided`
  std::int32_t least_bf16_code = 0;  // lowest scale code at which the decoded elements are normal BF16 numbers

  // How x is scaled. multiplied: x * encode. divided: x / decode. corrected: x / decode, computed from x * encode by
  // quotient() of lanes.h, with equal bits if no number is subnormal. limited: x * encode with an infinite encode,
  // limited to the largest element.
  enum class Ratio : std::uint8_t { multiplied, corrected, divided, limited };
  Ratio ratio = Ratio::multiplied;
  bool divides() const { return ratio == Ratio::corrected || ratio == Ratio::divided; }
};
Scaling scaling_of(const OperandFormat& format, float tensor_amax);

inline constexpr Index kMaxBlocks = 256;

// The blocks of a batch: row by row, or one block for each column. From `count` to the next multiple of 16, the arrays
// hold blocks of zeros.
struct BlockBatch {
  Index count = 0;
  alignas(64) std::array<std::int32_t, kMaxBlocks> amax_bits;  // ordered as integers: numbers < infinity < NaN
  alignas(64) std::array<float, kMaxBlocks> encode;            // 1 / decode, rounded
  alignas(64) std::array<float, kMaxBlocks> decode;            // NaN for code 255
  alignas(64) std::array<float, kMaxBlocks> bf16_decode;       // decode without tensor-wide scales
  alignas(64) std::array<std::int32_t, kMaxBlocks> code;       // index in the histogram of scales; 255 if not finite
  alignas(64) std::array<float, kMaxBlocks> scaled_amax;       // in units of the scale
  alignas(64) std::array<float, kMaxBlocks> x2;                // sum of squares of the values in units of the scale
  alignas(64) std::array<float, kMaxBlocks> elements;          // number of elements of each block
  alignas(64) std::array<std::int32_t, kMaxBlocks> four;       // only 4over6: whether the largest value is scaled to 4

  // Figures of the blocks that are not all zeros:
  std::int32_t top_amax_bits = 0;  // bits
  std::int32_t top_code = 0, least_code = 255;
  std::uint32_t nonzero = 0, clipped = 0;
  bool vanishing = false;  // a block is so far below its scale that float32 loses its squares
};

// Computes the scales and figures of the first batch.count blocks from their amax_bits and, with 4over6, from `four`.
void find_scales(const Scaling& scaling, BlockBatch& batch);

// Returns the largest magnitude; NaN or infinity if the matrix holds one.
float matrix_amax(ConstMatrix<float> matrix);
// Writes the amax of every block of `width` columns, row by row.
void find_row_amax(const Tile& tile, Index width, std::int32_t* amax_bits);
// Writes the amax of every column.
void find_column_amax(const Tile& tile, std::int32_t* amax_bits);

}  // namespace moescope
