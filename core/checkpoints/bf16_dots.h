// Products of few rows with weights in BF16 in a mapped file, read once, directly from its pages. Continuing a text
// token by token spends most of its time in them.
#pragma once

#include <cstddef>

#include "core/numerics/matrix.h"

namespace moescope {

// Computes y_TO = x_TI W_OI^T on the calling thread. The numbers of W are at `weights` row by row, two bytes each, at
// even addresses. Returns false if their pages are no longer there.
[[nodiscard]] bool bf16_dots(ConstMatrix<float> x, const std::byte* weights, Matrix<float> y);

}  // namespace moescope
