// How one operand of a GEMM is quantized, and one entry that does it: quantize, then decode again, exactly.
//
// The operand is seen as the GEMM reads it: scales and blocks run along the contracting dimension, whichever way the
// matrix lies in memory. x = value, q = decoded value, y = scaled value, cast_F = nearest-even saturating cast to F.
//
//   fp32   q = x
//   bf16   q = bfloat16(x)
//   fp8    e = float32(max_F / max(amax, 1e-12)), divided in float64;  y = x * e;  q = cast_F(y) * (1 / e)
//          power_of_two_scale: e rounded down to a power of two. One scale per ScaleGranularity.
//          torchao's float8 (float8_utils.amax_to_scale, to_fp8_saturated) and its DeepSeek blocks
//          (prototype/blockwise_fp8_training): it multiplies by the reciprocal scale instead of dividing by amax/max as
//          DeepSeek's published act_quant does. Both keep the scale amax/max to a float32 unit in the last place; we
//          take torchao's because it is the one that trains. amax below 1e-12 counts as 1e-12, so a zero block has a
//          scale.
//   mx     core/numerics/block_quantize.h: E8M0 scale per `block` elements by `rule`
//   nvfp4  E2M1, blocks of 16, E4M3 block scales, one FP32 scale for the tensor (torchao nvfp4_tensor.py; NVIDIA,
//          arXiv:2509.25149, appendix on NVFP4 quantization):
//          rule `divided`, the only one that divides, in blocks of 16 along the contracting dimension:
//            t = max(amax_tensor / (448 * 6), 2^-120)
//            s = cast_E4M3(clamp((amax_block / 6) / t, 2^-6, 448));   y = x / (t * s);   q = cast_E2M1(y) * (t * s)
//          all in float32. 2^-6 is the floor of torchao's inference code: blocks whose amax is under 2^-6 * 6 t share
//          it, zero blocks too; NVIDIA's TransformerEngine has none, but scale 0. 2^-120 is ours: torchao divides 0 by
//          0 for a tensor of zeros. s rounds down as often as up, so amax can exceed 6 and clips: by design.
//          The arithmetics of TransformerEngine and torchao, bit for bit, with 4over6 where it is wanted:
//          scale_rules.h. `square`: 16 x 16 values share s, so that a weight has the same decoded values along both
//          dimensions.
//
// The tensor of a tensor-wide scale is what one call is given (or tensor_amax says): for grouped experts call once per
// expert, so that every expert has its own scale.
// A NaN or infinity makes everything that shares its scale NaN (nvfp4: the whole tensor); bf16 keeps it in its place.
// Near the float32 maximum a decoded value may be infinite. Signs of zeros are kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "core/numerics/block_quantize.h"

namespace moescope {

// How a matrix is quantized: its format, and the axis that blocks and scales run along.
struct MatrixFormat {
  OperandFormat format = mx_format(ElementFormat::e4m3);
  BlockAxis axis = BlockAxis::row;
  bool operator==(const MatrixFormat&) const = default;
};

// Where random bits come from: they depend on seed, stream and the element's place in the whole tensor alone, so that
// neither threads nor tiles change them. A tile says where it begins.
struct RoundingKey {
  std::uint64_t seed = 0;    // the run's, and its step
  std::uint64_t stream = 0;  // one for each tensor and direction
  std::uint32_t first_row = 0, first_col = 0;
  std::uint64_t rotation_seed = 0;  // signs of the rotation: the same for both operands of a GEMM
};

// Quantizes and decodes again into `out` (same shape, `out_stride`, not overlapping `in`). `axis`: how the contracting
// dimension lies: BlockAxis::row along a row of the matrix, column down a column.
// `sums`, when given, gets every figure of this call added: of the rotated values when they are rotated, on which error
// figures do not depend. A "block" is what shares a scale, so one tensor under a tensor-wide scale; fp32 and bf16 have
// none. Scales that are no powers of two count in e8m0_blocks at floor(log2 scale) + 127, scale = q per element unit.
// fp8 scales come from amax, so fp8 never clips: an excess by the rounding of the scale is not counted.
void quantize_operand(const OperandFormat& format, MatrixView in, BlockAxis axis, const RoundingKey& key, float* out,
                      std::size_t out_stride, QuantSums* sums);

// For tensors that are quantized in tiles. Tiles start at multiples of 128 in both directions; a scale "per row" or a
// column of it must not be cut. A tensor-wide scale (has_tensor_scale) follows from the largest of all tiles'
// operand_amax, which is that of the rotated values when they are rotated; NaN or infinity if there is one.
float operand_amax(const OperandFormat& format, MatrixView in, BlockAxis axis, const RoundingKey& key);
float larger_amax(float a, float b);  // the one that is not finite, if there is one
// The same of a rotated tensor, whose rotated values are kept in `out`.
float rotate_operand(const OperandFormat& format, MatrixView in, BlockAxis axis, const RoundingKey& key, float* out,
                     std::size_t out_stride);

// A tensor whose tiles are next. If its amax had to be found after a rotation, these are the rotated values, in a
// format without one: nothing is rotated twice.
struct PreparedOperand {
  OperandFormat format;
  MatrixView in;
  float tensor_amax = 0;
};
constexpr bool rotates_whole(const OperandFormat& format) {
  return format.hadamard > 0 && has_tensor_scale(format);
}
OperandFormat unrotated(const OperandFormat& format);

void quantize_operand_tile(const OperandFormat& format, MatrixView in, BlockAxis axis, const RoundingKey& key,
                           float tensor_amax, float* out, std::size_t out_stride, QuantSums* sums);

// Quantized for BF16 matrix units (matrix_units.h), which multiply it exactly: q = BF16 number * scale.
//   bf16, mx   the number is q, the scale 1
//   nvfp4      element * s, which has 6 bits at most, and t or what one unit of that is worth (scale_rules.h)
//   fp8        the element, and 1 / e: one scale for the tensor, or a grid of them
// Whether the format is one of these: all but fp32.
bool fits_bf16(const OperandFormat& format);
float bf16_scale(const OperandFormat& format, float tensor_amax);

// Values that share a scale of fp8, along the contracting dimension and across it; kWhole: all of them.
struct ScaleBlock {
  static constexpr std::size_t kWhole = std::numeric_limits<std::size_t>::max();
  std::size_t along = kWhole, across = kWhole;
};
ScaleBlock fp8_block(ScaleGranularity granularity);
// fp8 with more scales than one.
constexpr bool has_scale_grid(const OperandFormat& format) {
  return format.scheme == QuantScheme::fp8 && !has_tensor_scale(format);
}
// Where the grid goes: [blocks along the contracting dimension, `stride` blocks across it].
struct ScaleGrid {
  float* scales = nullptr;
  std::size_t stride = 0;
};
// quantize_operand and quantize_operand_tile with the number in `out`. False: one is smaller than BF16's smallest
// normal number, 2^-126, or `scale` is, and `out` of no use.
bool quantize_operand_bf16(const OperandFormat& format, MatrixView in, BlockAxis axis, const RoundingKey& key,
                           Bf16* out, std::size_t out_stride, float& scale, ScaleGrid grid, QuantSums* sums);
bool quantize_operand_tile_bf16(const OperandFormat& format, MatrixView in, BlockAxis axis, const RoundingKey& key,
                                float tensor_amax, Bf16* out, std::size_t out_stride, ScaleGrid grid, QuantSums* sums);

}  // namespace moescope
