// How one operand of a GEMM is quantized: quantize, then decode again, exactly.
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
// The tensor of a tensor-wide scale is what one call is given (or Operand::tensor_amax says): for grouped experts call
// once per expert, so that every expert has its own scale.
// A NaN or infinity makes everything that shares its scale NaN (nvfp4: the whole tensor); bf16 keeps it in its place.
// Near the float32 maximum a decoded value may be infinite. Signs of zeros are kept.
#pragma once

#include <optional>

#include "core/numerics/operand.h"

namespace moescope {

// Threads that quantize. With `all`, bands of whole blocks are distributed; the bands do not depend on the number of
// threads. The numbers are equal either way, but sums of squares are added in another order.
enum class Threads : std::uint8_t { calling, all };

// Quantizes an operand without halves and decodes it into `out`, which has the operand's shape and does not overlap it.
// With a rotation, statistics are those of the rotated values, which does not change error figures. A "block" in
// statistics is what shares a scale, so one tensor under a tensor-wide scale; fp32 and bf16 have no blocks. Scales that
// are no powers of two count in e8m0_blocks at floor(log2 scale) + 127, scale = q per element unit. fp8 scales come
// from amax, so fp8 never clips: an excess by the rounding of the scale is not counted. A piece of a tensor must start
// at multiples of 128 in both directions; a scale "per row" or a column of it must not be cut. Values of type double
// are for gradient checks and are rounded to float first.
void quantize_operand(const Operand<float>& operand, Matrix<float> out, Threads threads = Threads::calling);
void quantize_operand(const Operand<double>& operand, Matrix<double> out, Threads threads = Threads::calling);

// Quantizes and decodes each row by itself, in place, as a transfer in that format does, on all threads. `format` must
// not have a tensor-wide scale.
template <class T>
void round_rows(const OperandFormat& format, Matrix<T> rows, QuantSums* sums = nullptr);

// Returns the largest magnitude, with a rotation that of the rotated values; NaN or infinity if there is one.
float operand_amax(const Operand<float>& operand);
float larger_amax(float a, float b);  // prefers a value that is not finite

// Quantization for BF16 matrix units (matrix_units.h), which multiply it exactly: q = BF16 number * scale.
//   bf16, mx   the number is q, the scale 1
//   nvfp4      element * s, which has 6 bits at most, and t or the value of one unit of that (scale_rules.h)
//   fp8        the element, and 1 / e: one scale for the tensor, or a grid of them
// fits_bf16() is true for all formats but fp32.
bool fits_bf16(const OperandFormat& format);
// Quantizes as quantize_operand does, but writes the BF16 numbers to `out` and, if the format has one, the grid of
// scales to `grid`, which must have room for it. Returns the scale; nullopt if a number or the scale is smaller than
// BF16's smallest normal number, 2^-126. The contents of `out` are then unspecified.
std::optional<float> quantize_operand_bf16(const Operand<float>& operand, Matrix<Bf16> out, const ScaleGrid& grid = {},
                                           Threads threads = Threads::calling);

}  // namespace moescope
