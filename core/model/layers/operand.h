// Quantizes matrices of the model for a GEMM, in either scalar type.
//
// double is for gradient checks: quantization sees the values rounded to float.
#pragma once

#include <cstddef>

#include "core/numerics/operand_format.h"

namespace moescope {

// On the calling thread. `out` has the shape and stride of `in` and does not overlap it.
template <class T>
void quantize_alone(const OperandFormat& format, const T* in, int rows, int cols, std::size_t stride, BlockAxis axis,
                    const RoundingKey& key, T* out, QuantSums* sums);

// The same on all threads, in bands of 128 that split no block; bit-identical for any number of threads.
template <class T>
void quantize_in_bands(const OperandFormat& format, const T* in, int rows, int cols, std::size_t stride, BlockAxis axis,
                       const RoundingKey& key, T* out, QuantSums* sums);

// In bands, for BF16 matrix units: operand_format.h's quantize_operand_bf16.
bool quantize_in_bands_bf16(const OperandFormat& format, MatrixView in, BlockAxis axis, const RoundingKey& key,
                            Bf16* out, float& scale, ScaleGrid grid, QuantSums* sums);

// Quantizes and decodes each row by itself, in place, as a transfer in that format does. `format` has no tensor-wide
// scale.
template <class T>
void round_rows(const OperandFormat& format, T* rows_of, std::size_t rows, int cols, QuantSums* sums = nullptr);

}  // namespace moescope
