// What a number format does to a tensor of a file: the figures of `moescope-cli quantize`.
//
// A tensor is a stack of matrices [rows, cols] along its last two axes (experts, say), each quantized as an operand of
// its own, with a scale of its own where the format has one for the whole operand. Files are read in pieces, so a
// tensor may be larger than the memory.
#pragma once

#include <vector>

#include "core/numerics/quantize.h"
#include "core/numerics/what_if.h"
#include "core/tensors/safetensors.h"

namespace moescope {

struct MatrixStack {
  std::size_t matrices = 1, rows = 1, cols = 1;
};
// A vector is a matrix [1, n], a scalar [1, 1].
MatrixStack matrices_of(const TensorView& tensor);

// Figures summed over all matrices of the tensor.
QuantSums figures_of(const TensorView& tensor, const OperandFormat& format, BlockAxis axis);
// The rows of what_if() for all matrices of the tensor.
std::vector<WhatIfRow> what_if_of(const TensorView& tensor);

}  // namespace moescope
