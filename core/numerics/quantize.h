// Quantization of one operand of a GEMM: every value is rounded to the format and decoded again, exactly.
//
// Blocks and scales run along the contracting dimension of the GEMM, whether it is a row or a column in memory.
// x = value, q = decoded value, y = scaled value, cast_F = nearest-even saturating cast to F.
//
//   fp32   q = x
//   bf16   q = bfloat16(x)
//   fp8    e = float32(max_F / max(amax, 1e-12)), divided in float64;  y = x * e;  q = cast_F(y) * (1 / e)
//          power_of_two_scale: e rounded down to a power of two. One scale per ScaleGranularity.
//          Source: torchao's float8 (float8_utils.amax_to_scale, to_fp8_saturated) and its DeepSeek blocks
//          (prototype/blockwise_fp8_training). torchao multiplies by the reciprocal scale; DeepSeek's published
//          act_quant divides by amax/max. Both scales equal amax/max to a float32 unit in the last place; torchao's is
//          used, because it is training code. amax below 1e-12 counts as 1e-12, so a zero block has a scale.
//   mx     core/numerics/block_quantize.h: E8M0 scale per `block` elements by `rule`
//   nvfp4  E2M1, blocks of 16, E4M3 block scales, one FP32 scale for the tensor (torchao nvfp4_tensor.py; NVIDIA,
//          arXiv:2509.25149, appendix on NVFP4 quantization):
//          rule `divided`, the only one that divides, in blocks of 16 along the contracting dimension:
//            t = max(amax_tensor / (448 * 6), 2^-120)
//            s = cast_E4M3(clamp((amax_block / 6) / t, 2^-6, 448));   y = x / (t * s);   q = cast_E2M1(y) * (t * s)
//          all in float32. 2^-6 is the least block scale of torchao's inference code; all blocks whose amax is below
//          2^-6 * 6 t have it, zero blocks too. NVIDIA's TransformerEngine has no least scale, and its scales can be 0.
//          2^-120 is this program's choice: torchao divides 0 by 0 for a tensor of zeros. s is rounded down as often as
//          up. If it is rounded down, the scaled amax can exceed 6 and is then clipped; this is intended.
//          scale_rules.h has the arithmetics of TransformerEngine and torchao, bit for bit, and 4over6. `square`:
//          16 x 16 values share s, so that a weight has the same decoded values along both dimensions.
//
// A tensor-wide scale belongs to the matrix of one call, or to the tensor that Operand::tensor_amax was computed from.
// For a grouped GEMM call once per expert, so that every expert has its own scale.
// A NaN or infinity makes all values that share its scale NaN (nvfp4 with a scale for the tensor: the whole tensor).
// bf16 has no scales and keeps a NaN or infinity in its place. Near the float32 maximum a decoded value may be
// infinite. Signs of zeros are kept, except in INT8.
#pragma once

#include <optional>

#include "core/numerics/operand.h"

namespace moescope {

// Threads that quantize. With `all`, bands of whole blocks are distributed; the bands do not depend on the number of
// threads. Both choices give equal numbers, but add sums of squares in different orders.
enum class Threads : std::uint8_t { calling, all };

// Quantizes an operand without halves and decodes it into `out`, which has the operand's shape and does not overlap it.
// With a rotation, statistics are those of the rotated values, which does not change error figures. A "block" in
// statistics is the values that share a scale: NVFP4's blocks, but the whole tensor if fp8 has one scale for it. fp32
// and bf16 have no blocks. Scales that are no powers of two are counted in e8m0_blocks at floor(log2 scale) + 127,
// where the scale is the value of one unit of the element. fp8 scales come from amax, so fp8 never clips: an excess by
// the rounding of the scale is not counted. A piece of a tensor must start at multiples of 128 in both directions, and
// must not cut the values that share a scale "per row". Values of type double are for gradient checks and are rounded
// to float first.
void quantize_operand(const Operand<float>& operand, Matrix<float> out, Threads threads = Threads::calling);
void quantize_operand(const Operand<double>& operand, Matrix<double> out, Threads threads = Threads::calling);

// Quantizes and decodes each row by itself, in place, as a transfer in that format does, on all threads. `format` must
// not have a tensor-wide scale.
template <class T>
void round_rows(const OperandFormat& format, Matrix<T> rows, QuantSums* sums = nullptr);

// Returns the largest magnitude of the operand, after the rotation if its format has one; NaN or infinity if the
// operand contains one.
float operand_amax(const Operand<float>& operand);
float larger_amax(float a, float b);  // NaN or infinity if one of them is

// Quantization for BF16 matrix units (matrix_units.h), which multiply BF16 numbers exactly: q = BF16 number * scale.
//   bf16, mx   number: q;            scale: 1
//   nvfp4      number: element * s;  scale: t for rule `divided`, else Nvfp4TensorScale::unit (scale_rules.h)
//   fp8        number: the element;  scale: 1 / e, one for the tensor or a grid of scales
// element * s has at most 6 significant bits, so BF16 holds it.
// fits_bf16() is true for all formats but fp32.
bool fits_bf16(const OperandFormat& format);
// Quantizes as quantize_operand does, but writes the BF16 numbers to `out` and, if the format has one, the grid of
// scales to `grid`, which must have room for it. Returns the scale; nullopt if a number or the scale is smaller than
// BF16's smallest normal number, 2^-126. The contents of `out` are then unspecified.
std::optional<float> quantize_operand_bf16(const Operand<float>& operand, Matrix<Bf16> out, const ScaleGrid& grid = {},
                                           Threads threads = Threads::calling);

}  // namespace moescope
